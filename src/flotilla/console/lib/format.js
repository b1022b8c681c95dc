// Numbers, times and payloads as people read them.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const number = (n) => (n === undefined || n === null ? "–" : whole.format(n));
export const compact = (n) => (n === undefined || n === null ? "–" : Math.abs(n) < 10000 ? whole.format(n) : short.format(n));
export const rate = (n) => (n === undefined || n === null ? "–" : n >= 10 || n === 0 ? compact(Math.round(n)) : n.toFixed(1));
export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

export function bytes(n) {
  if (n === undefined || n === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) {
    n /= 1024;
    at += 1;
  }
  return `${at && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
}

export function duration(ms) {
  if (ms === undefined || ms === null) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  const two = (large, size, small, rest) => `${Math.floor(s / size)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
  if (s < 3600) return two("m", 60, "s", s % 60);
  if (s < 86400) return two("h", 3600, "m", Math.floor((s % 3600) / 60));
  return two("d", 86400, "h", Math.floor((s % 86400) / 3600));
}

const pad = (n, size = 2) => String(n).padStart(size, "0");

/** Local, with the date unless it is today. */
export function time(ms, isFull = false) {
  if (!ms) return "–";
  const at = new Date(ms);
  const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
  if (!isFull && at.toDateString() === new Date().toDateString()) return clock;
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock}`;
}

export function ago(ms) {
  const passed = Date.now() - ms;
  return passed < 0 ? `in ${duration(-passed)}` : `${duration(passed)} ago`;
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export function toBase64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

/** Text, or null where the bytes are none. */
export function asText(base64) {
  try {
    const found = new TextDecoder("utf-8", { fatal: true }).decode(fromBase64(base64));
    return /[\u0000-\u0008\u000e-\u001f]/.test(found) ? null : found;
  } catch {
    return null;
  }
}

export function hex(base64, most = 4096) {
  const data = fromBase64(base64);
  const lines = [];
  for (let at = 0; at < Math.min(data.length, most); at += 16) {
    const row = data.subarray(at, Math.min(at + 16, most));
    const codes = [...row].map((b) => b.toString(16).padStart(2, "0")).join(" ");
    const shown = [...row].map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${codes.padEnd(47)}  ${shown}`);
  }
  if (data.length > most) lines.push(`… ${number(data.length - most)} more bytes`);
  return lines.join("\n");
}

const TEXT = 1;
const JSON_TYPE = 2;
/** Content types that only programs read, by their number. */
export const BINARY = { 3: "Protobuf", 4: "Avro", 5: "Arrow" };

/** {kind, text, size}, as the content type says, and where it says only bytes, as they look: JSON indented, text as it
 * is, other bytes in hexadecimal. */
export function decoded(record) {
  const type = record.content_type ?? 0;
  const size = Math.floor((record.payload.length * 3) / 4) - (record.payload.match(/=*$/)[0].length);
  const text = type in BINARY ? null : asText(record.payload);
  if (text === null) return { kind: BINARY[type] ?? "bytes", text: hex(record.payload), size };
  if (type === JSON_TYPE || (type !== TEXT && "{[".includes(text.trimStart()[0] ?? " "))) {
    try {
      return { kind: "JSON", text: JSON.stringify(JSON.parse(text), null, 2), size };
    } catch {
      // Not JSON, whatever it says.
    }
  }
  return { kind: "text", text, size };
}

/** One line of a payload. */
export function preview(record, most = 160) {
  const text = asText(record.payload.length > 4 * most ? record.payload.slice(0, 4 * most) : record.payload);
  const line = text === null ? hex(record.payload, 24).split("\n")[0].slice(8) : text.replace(/\s+/g, " ");
  return line.length > most ? line.slice(0, most) + "…" : line;
}

export const keyText = (record) => (record.key === undefined ? "" : (asText(record.key) ?? hex(record.key, 16).slice(8, 32)));
