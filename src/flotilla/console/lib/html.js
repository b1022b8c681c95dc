// The template tag and the hooks that all modules use.
import { h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export * from "../vendor/hooks.js";
export { render };
export const html = htm.bind(h);
