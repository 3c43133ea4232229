/** Starts the server and keeps it in step with the workspace's trust and settings. */

import * as vscode from "vscode";
import {
  DidChangeConfigurationNotification,
  ExecuteCommandRequest,
  LanguageClient,
  type LanguageClientOptions,
  ResponseError,
  type ServerOptions,
} from "vscode-languageclient/node";

import { Offers, type Offer } from "./offers";
import { findServer } from "./server";
import { explicitSettings, SECTION } from "./settings";

const SELECTOR = [
  { scheme: "file", language: "cpp" },
  { scheme: "file", language: "cuda-cpp" },
  { scheme: "file", pattern: "**/*.{cu,cuh}" },
];

let client: LanguageClient | undefined;

/** Starts and stops follow one another, however fast they are asked for. */
let turn: Promise<void> = Promise.resolve();

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const offers = new Offers((id) => execute("kernel-lsp.applyOffer", id));
  const restart = () => inTurn(async () => {
    await stop();
    await start(offers);
  });

  context.subscriptions.push(
    offers,
    vscode.commands.registerCommand("kernelLsp.check", () => onActiveFile("kernel-lsp.check")),
    vscode.commands.registerCommand("kernelLsp.optimize", () => onActiveFile("kernel-lsp.optimize")),
    vscode.commands.registerCommand("kernelLsp.report", () => onActiveFile("kernel-lsp.report")),
    vscode.commands.registerCommand("kernelLsp.doctor", () => execute("kernel-lsp.doctor")),
    vscode.commands.registerCommand("kernelLsp.restart", restart),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(`${SECTION}.server`)) {
        void restart();
      } else if (event.affectsConfiguration(SECTION)) {
        void client?.sendNotification(DidChangeConfigurationNotification.type, {
          settings: { [SECTION]: explicitSettings() },
        });
      }
    }),
  );
  await inTurn(() => start(offers));
}

export async function deactivate(): Promise<void> {
  await inTurn(stop);
}

async function start(offers: Offers): Promise<void> {
  const command = await findServer();
  if (command === undefined) {
    void offerToInstall();
    return;
  }
  const server: ServerOptions = { command, args: ["serve", "--stdio"] };
  const options: LanguageClientOptions = {
    documentSelector: SELECTOR,
    initializationOptions: {
      trusted: vscode.workspace.isTrusted,
      offers: true,
      settings: explicitSettings(),
    },
    middleware: {
      workspace: {
        // What nobody has set is left to the workspace's own settings files, not overridden by our defaults.
        configuration: (params) => params.items.map((item) => (item.section === SECTION ? explicitSettings() : null)),
      },
      window: {
        showDocument: async (params, next) => {
          if (!params.uri.endsWith(".md")) {
            const shown = await next(params, new vscode.CancellationTokenSource().token);
            return shown instanceof ResponseError ? { success: false } : shown;
          }
          await vscode.commands.executeCommand("markdown.showPreviewToSide", vscode.Uri.parse(params.uri));
          return { success: true };
        },
      },
    },
  };
  client = new LanguageClient(SECTION, "kernel-lsp", server, options);
  client.onNotification("kernel-lsp/offer", (offer: Offer) => offers.show(offer));
  try {
    await client.start();
    await vscode.commands.executeCommand("setContext", "kernelLsp.running", true);
  } catch (error) {
    client = undefined;
    void vscode.window.showErrorMessage(`kernel-lsp: ${command} did not start: ${String(error)}`);
  }
}

async function stop(): Promise<void> {
  const running = client;
  client = undefined;
  await vscode.commands.executeCommand("setContext", "kernelLsp.running", false);
  await running?.dispose();
}

function inTurn(act: () => Promise<void>): Promise<void> {
  turn = turn.then(act, act);
  return turn;
}

async function execute(command: string, ...args: string[]): Promise<void> {
  await client?.sendRequest(ExecuteCommandRequest.type, { command, arguments: args });
}

async function onActiveFile(command: string): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (client !== undefined && document !== undefined) {
    await execute(command, client.code2ProtocolConverter.asUri(document.uri));
  }
}

async function offerToInstall(): Promise<void> {
  const openSettings = "Open settings";
  const where = vscode.workspace.isTrusted
    ? "neither in the workspace's .venv nor on PATH"
    : "not on PATH, and this workspace is not trusted";
  const picked = await vscode.window.showWarningMessage(
    `The kernel-lsp server was found ${where}. Install it with \`pip install kernel-lsp\`, or say where it is.`,
    openSettings,
  );
  if (picked === openSettings) {
    await vscode.commands.executeCommand("workbench.action.openSettings", `${SECTION}.server.path`);
  }
}
