// A chart of series over time. The library is loaded with the first one.
import { html, useEffect, useRef } from "./html.js";
import { compact, time } from "./format.js";

let library = null;

function loaded() {
  library ??= Promise.all([
    import("../vendor/uplot.js"),
    new Promise((done) => {
      const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("../vendor/uplot.css", import.meta.url).href });
      style.onload = style.onerror = done;
      document.head.append(style);
    }),
  ]).then(([module]) => module.default);
  return library;
}

const paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** `series` are [name, values, colour variable]; `data.end_ms` and `data.step_ms` say when. */
export function Chart({ label, end, step, series, height = 190 }) {
  const place = useRef(null);
  const drawn = useRef(null);
  const count = series[0][1].length;
  const times = Array.from({ length: count }, (_, at) => (end - (count - 1 - at) * step) / 1000);
  const rows = [times, ...series.map((each) => each[1])];
  useEffect(() => {
    let isGone = false;
    loaded().then((uPlot) => {
      if (isGone || !place.current) return;
      if (drawn.current) {
        drawn.current.setData(rows);
        return;
      }
      const grid = { stroke: paint("--line"), width: 1 };
      const axis = { stroke: paint("--dim"), grid, ticks: grid, font: "12px system-ui" };
      drawn.current = new uPlot({
        width: place.current.clientWidth, height,
        cursor: { y: false }, legend: { live: true },
        scales: { y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.1] } },
        axes: [{ ...axis, space: 72, values: (_, all) => all.map((at) => time(at * 1000).slice(-12, count * step > 600000 ? -7 : -4)) }, { ...axis, size: 56, values: (_, all) => all.map(compact) }],
        series: [{ value: (_, at) => (at ? time(at * 1000).slice(-12, -4) : "–") }, ...series.map(([name, , colour]) => ({
          label: name, stroke: paint(colour), width: 1.75, points: { show: false }, value: (_, n) => compact(n),
        }))],
      }, rows, place.current);
    });
    return () => { isGone = true; };
  }, [rows]);
  useEffect(() => {
    const watch = new ResizeObserver(() => place.current && drawn.current?.setSize({ width: place.current.clientWidth, height }));
    watch.observe(place.current);
    return () => {
      watch.disconnect();
      drawn.current?.destroy();
      drawn.current = null;
    };
  }, []);
  const last = series.map(([name, values]) => `${name} ${compact(values[values.length - 1] ?? 0)}`).join(", ");
  return html`<figure class="chart"><figcaption>${label}</figcaption><div ref=${place} role="img" aria-label=${`${label}; now: ${last}`}></div></figure>`;
}
