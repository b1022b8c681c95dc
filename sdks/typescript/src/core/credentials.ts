/**
 * Who a client is, for brokers that ask: a user with a password, or a token. And how its connections are encrypted.
 *
 * Secrets come from files or from a function of the application, and are read when a connection is made. A password is
 * used to prove itself (SCRAM-SHA-256): it does not leave the process.
 */

import { createHash, createHmac, pbkdf2, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { promisify } from "node:util";

import { InvalidArgumentError, UnauthenticatedError } from "../errors.js";

/** A user and its password. */
export interface Password {
  user: string;
  password: string;
}

/** A bearer token (JWT), which names its user. */
export interface Token {
  token: string;
}

export type Credentials = Password | Token;
/** Asked for each connection. */
export type CredentialsProvider = () => Credentials | Promise<Credentials>;

/** Files for TLS 1.3. They are read again for each connection. */
export interface Tls {
  /** The authorities whose certificates brokers may have; by default those that Node trusts. */
  ca?: string;
  /** Say who the client is, for brokers that ask. Only the owner may read the key. */
  certificate?: string;
  key?: string;
}

const ITERATIONS_MIN = 4096;
const ITERATIONS = 50_000;
const ITERATIONS_MAX = 1_000_000;
const PASSWORD_CHARS_MAX = 1024;
const hashed = promisify(pbkdf2);

/** The options of a TLS connection to this host. Throws InvalidArgumentError for files that cannot be used. */
export function tlsOptions(tls: Tls, host: string): ConnectionOptions {
  if (Boolean(tls.certificate) !== Boolean(tls.key)) {
    throw new InvalidArgumentError("a certificate and its key go together");
  }
  if (tls.key) checkOwner(tls.key, (text) => new InvalidArgumentError(text));
  const read = (path: string | undefined): Buffer | undefined => (path ? readFileSync(path) : undefined);
  return {
    ca: read(tls.ca),
    cert: read(tls.certificate),
    key: read(tls.key),
    minVersion: "TLSv1.3",
    servername: isIP(host) ? undefined : host,
  };
}

/** The first line of a file that only its owner may read. Throws UnauthenticatedError. */
export function readSecret(path: string): string {
  checkOwner(path, (text) => new UnauthenticatedError(text));
  const text = readFileSync(path, "utf8").split(/\r?\n/, 1)[0]!;
  if (!text) throw new UnauthenticatedError(`${path} is empty`);
  return text;
}

function checkOwner(path: string, refuse: (text: string) => Error): void {
  let mode: number;
  try {
    mode = statSync(path).mode;
  } catch (error) {
    throw refuse(`the secret cannot be read: ${String(error)}`);
  }
  if (process.platform !== "win32" && mode & 0o077) {
    throw refuse(`the secret ${path} can be read by others than its owner: chmod 600 ${path}`);
  }
}

/** One step of a log-in: the broker answers each with a challenge. */
export interface LogInStep {
  mechanism: string;
  data: Uint8Array;
}

export interface Challenge {
  data: Uint8Array;
  isDone: boolean;
}

/** The steps of a log-in. Throws UnauthenticatedError when the broker does not offer it, or is not who it says. */
export async function* logIn(
  credentials: Credentials,
  mechanisms: readonly string[],
): AsyncGenerator<LogInStep, void, Challenge> {
  const mechanism = "token" in credentials ? "BEARER" : "SCRAM-SHA-256";
  if (!mechanisms.includes(mechanism)) {
    throw new UnauthenticatedError(
      `the broker offers ${mechanisms.join(", ")} here, and the client's credentials need ${mechanism}`,
    );
  }
  if ("token" in credentials) {
    const { isDone } = yield { mechanism, data: Buffer.from(credentials.token) };
    if (!isDone) throw new UnauthenticatedError("the broker asks for more than a token");
    return;
  }
  const nonce = randomBytes(18).toString("base64");
  const user = credentials.user.replaceAll("=", "=3D").replaceAll(",", "=2C");
  const bare = `n=${user},r=${nonce}`;
  const asked = yield { mechanism, data: Buffer.from(`n,,${bare}`) };
  if (asked.isDone) throw new UnauthenticatedError("the broker lets the client in without a proof");
  const challenge = Buffer.from(asked.data).toString();
  const parts = attributes(challenge);
  const joint = parts.get("r") ?? "";
  const iterations = Number(parts.get("i"));
  if (!joint.startsWith(nonce) || joint === nonce || !(iterations >= ITERATIONS_MIN && iterations <= ITERATIONS_MAX)) {
    throw new UnauthenticatedError("the challenge of the broker is not one of SCRAM");
  }
  const salted = await saltedPassword(credentials.password, Buffer.from(parts.get("s") ?? "", "base64"), iterations);
  const final = `c=${Buffer.from("n,,").toString("base64")},r=${joint}`;
  const signed = `${bare},${challenge},${final}`;
  const clientKey = mac(salted, "Client Key");
  const signature = mac(sha256(clientKey), signed);
  const proof = Buffer.from(clientKey.map((byte, at) => byte ^ signature[at]!));
  const verdict = yield { mechanism, data: Buffer.from(`${final},p=${proof.toString("base64")}`) };
  const found = Buffer.from(attributes(Buffer.from(verdict.data).toString()).get("v") ?? "", "base64");
  const expected = mac(mac(salted, "Server Key"), signed);
  if (!verdict.isDone || found.length !== expected.length || !timingSafeEqual(found, expected)) {
    throw new UnauthenticatedError("the server does not know the user: it may be another one than it says");
  }
}

/** What a broker keeps of a password: nobody can log in with it. Slow on purpose. Throws InvalidArgumentError. */
export async function verifierOf(password: string) {
  const salt = randomBytes(16);
  const salted = await saltedPassword(password, salt, ITERATIONS);
  return { salt, iterations: ITERATIONS, storedKey: sha256(mac(salted, "Client Key")), serverKey: mac(salted, "Server Key") };
}

async function saltedPassword(password: string, salt: Buffer, iterations: number): Promise<Buffer> {
  const text = password.normalize("NFKC");
  if (!text || text.length > PASSWORD_CHARS_MAX || /[\p{Cc}\p{Cs}]/u.test(text)) {
    throw new InvalidArgumentError(
      `a password has 1 to ${PASSWORD_CHARS_MAX} characters, none of them control characters`,
    );
  }
  return hashed(text, salt, iterations, 32, "sha256");
}

function attributes(text: string): Map<string, string> {
  return new Map(text.split(",").filter((part) => part[1] === "=").map((part) => [part[0]!, part.slice(2)]));
}

function mac(key: Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

function sha256(data: Buffer): Buffer {
  return createHash("sha256").update(data).digest();
}
