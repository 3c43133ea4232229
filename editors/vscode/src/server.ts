/** Where the server is. */

import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, join } from "node:path";

import * as vscode from "vscode";

import { SECTION } from "./settings";

const NAME = "kernel-lsp";

/** The command's path; undefined where there is none. A workspace that is not trusted starts no program of its own. */
export async function findServer(): Promise<string | undefined> {
  const configured = vscode.workspace.getConfiguration(SECTION).get("server.path", "").trim();
  if (configured !== "") {
    return configured;
  }
  for (const candidate of candidates()) {
    if (await isExecutable(candidate)) {
      return candidate;
    }
  }
  return undefined;
}

function candidates(): string[] {
  const folders = vscode.workspace.isTrusted ? (vscode.workspace.workspaceFolders ?? []) : [];
  const environments = folders.map((folder) => join(folder.uri.fsPath, ".venv", "bin", NAME));
  const path = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  return [...environments, ...path.map((folder) => join(folder, NAME))];
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
