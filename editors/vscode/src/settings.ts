/** What the user has set, as opposed to what a setting's default is. */

import * as vscode from "vscode";

export const SECTION = "kernelLsp";

/** Settings that mean something to this extension only. */
const OWN = ["server", "trace"];

export function explicitSettings(): Record<string, unknown> {
  const settings = vscode.workspace.getConfiguration(SECTION);
  const explicit: Record<string, unknown> = {};
  for (const key of Object.keys(settings)) {
    const found = OWN.includes(key) ? undefined : settings.inspect(key);
    if (found === undefined) {
      continue;
    }
    const trusted = vscode.workspace.isTrusted || !isRestricted(key);
    const value = (trusted ? found.workspaceValue : undefined) ?? found.globalValue;
    if (value !== undefined) {
      explicit[key] = value;
    }
  }
  return explicit;
}

/** As in package.json's `restrictedConfigurations`: an untrusted workspace does not choose what is executed. */
function isRestricted(key: string): boolean {
  return ["python", "compiler", "flags", "cacheDir"].includes(key);
}
