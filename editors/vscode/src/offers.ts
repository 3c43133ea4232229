/** Rewrites that the server offers: a diff beside the file, with Apply and Discard. */

import * as vscode from "vscode";

export const SCHEME = "kernel-lsp-offer";

/** `kernel-lsp/offer`, from the server. */
export interface Offer {
  readonly id: string;
  readonly uri: string;
  /** One sentence: how much faster, and by what. */
  readonly message: string;
  readonly newText: string;
}

export class Offers implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly offers = new Map<string, Offer>();
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly apply: (id: string) => Promise<void>) {
    this.subscriptions = [
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.workspace.onDidCloseTextDocument((document) => {
        if (document.uri.scheme === SCHEME) {
          this.offers.delete(idOf(document.uri));
        }
      }),
      vscode.commands.registerCommand("kernelLsp.applyOffer", (uri?: vscode.Uri) => this.finish(uri, true)),
      vscode.commands.registerCommand("kernelLsp.discardOffer", (uri?: vscode.Uri) => this.finish(uri, false)),
    ];
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.offers.get(idOf(uri))?.newText ?? "";
  }

  async show(offer: Offer): Promise<void> {
    this.offers.set(offer.id, offer);
    const original = vscode.Uri.parse(offer.uri);
    const rewritten = original.with({ scheme: SCHEME, query: offer.id });
    const name = original.path.split("/").pop() ?? "";
    await vscode.commands.executeCommand("vscode.diff", original, rewritten, `${name} ↔ faster`, { preview: false });
    const [apply, discard] = ["Apply", "Discard"];
    const picked = await vscode.window.showInformationMessage(`${name}: ${offer.message}`, apply, discard);
    if (picked !== undefined && this.offers.has(offer.id)) {
      await this.finish(rewritten, picked === apply);
    }
  }

  /** Apply or drop the offer whose diff is `uri`, or is in front, and close the diff. */
  private async finish(uri: vscode.Uri | undefined, accepted: boolean): Promise<void> {
    const side = uri?.scheme === SCHEME ? uri : offerInFront();
    if (side === undefined) {
      return;
    }
    const id = idOf(side);
    const known = this.offers.delete(id);
    await closeDiff(side);
    if (accepted && known) {
      await this.apply(id);
    }
  }
}

function idOf(uri: vscode.Uri): string {
  return uri.query;
}

function offerInFront(): vscode.Uri | undefined {
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  return input instanceof vscode.TabInputTextDiff && input.modified.scheme === SCHEME ? input.modified : undefined;
}

async function closeDiff(side: vscode.Uri): Promise<void> {
  const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
  const diffs = tabs.filter(
    (tab) => tab.input instanceof vscode.TabInputTextDiff && tab.input.modified.toString() === side.toString(),
  );
  await vscode.window.tabGroups.close(diffs);
}
