/** Real brokers for tests: started by the command in FLOTILLA, by default `flotilla` of the project's environment. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const COMMAND = (process.env.FLOTILLA ?? join(import.meta.dirname, "../../../.venv/bin/flotilla")).split(" ");

/** One node as a process. */
export class Node {
  #process: ChildProcess | undefined;
  private readonly folder = mkdtempSync(join(tmpdir(), "flotilla-ts-"));
  address = "";

  constructor(private readonly options: string[] = []) {}

  async start(): Promise<this> {
    const ports = ["--listen", "--peer-listen", "--http-listen", "--grpc-listen"].flatMap((name) => [name, "127.0.0.1:0"]);
    const [command, ...first] = COMMAND;
    // It ends with this process, however that ends.
    const words = [...first, "serve", "--stop-with-stdin", "--data-dir", join(this.folder, "data"), ...ports, ...this.options];
    const child = spawn(command!, words, { stdio: ["pipe", "ignore", "pipe"] });
    this.#process = child;
    const said: string[] = [];
    for await (const line of createInterface(child.stderr!)) {
      said.push(line);
      const found = /"event":"listening".*?"clients":"([^"]+)"/.exec(line);
      if (found) {
        this.address = found[1]!;
        child.stderr!.resume();
        return this;
      }
    }
    throw new Error(`the node ended before it said where it listens: ${said.join("\n")}`);
  }

  async stop(): Promise<void> {
    const child = this.#process!;
    if (child.exitCode === null && child.signalCode === null) {
      const gone = once(child, "exit");
      child.kill("SIGTERM");
      await gone;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Repeats a check until it holds; a broker needs its time, and nobody knows how much. */
export async function eventually<T>(check: () => Promise<T | undefined | false>, limitMs = 30_000): Promise<T> {
  const untilMs = performance.now() + limitMs;
  for (;;) {
    const found = await check();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > untilMs) throw new Error(`it did not come true within ${limitMs} ms: ${check.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
