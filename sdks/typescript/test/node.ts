/** Real brokers for tests: started by the command in FLOTILLA, by default `flotilla` of the project's environment. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export const COMMAND = (process.env.FLOTILLA ?? join(import.meta.dirname, "../../../.venv/bin/flotilla")).split(" ");

/** One node as a process. */
export class Node {
  #process: ChildProcess | undefined;
  readonly folder = mkdtempSync(join(tmpdir(), "flotilla-ts-"));
  address = "";

  constructor(readonly options: string[] = []) {}

  async start(): Promise<this> {
    const listen = this.address || "127.0.0.1:0";
    const own = ["--data-dir", join(this.folder, "data"), "--listen", listen];
    const others = ["--peer-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"];
    const chosen = others.filter((_, at) => !this.options.includes(others[at - (at % 2)]!));
    const [command, ...first] = COMMAND;
    const child = spawn(command!, [...first, "serve", ...own, ...chosen, ...this.options], { stdio: ["ignore", "ignore", "pipe"] });
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

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    if (!this.#process || this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const gone = once(this.#process, "exit");
    this.#process.kill(signal);
    await gone;
  }

  async stop(): Promise<void> {
    await this.kill("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Ports that are free now. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, "127.0.0.1");
      await once(server, "listening");
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
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
