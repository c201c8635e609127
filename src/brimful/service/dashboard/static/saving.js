// What someone saves of a plot, loaded when they do. `curves` is the part of a page that curves.js makes.
import { echarts } from "nicegui-echart";

const AT_ONCE = 100000; // rows of one answer; so many steps have no more
const MOST_ROWS = 2000000; // of a run in a file

function save(href, file) {
  const anchor = document.createElement("a");
  anchor.href = href;
  anchor.download = file;
  anchor.click();
}

export function png(curves, name) {
  // Drawn anew, with all that the page says beside a plot.
  const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
  const font = { fontFamily: getComputedStyle(document.body).fontFamily }, text = { ...font, color: of("--ink") };
  const option = curves.option(name), many = curves.runs.length > 1, place = document.createElement("div");
  const chart = echarts.init(place, null, { renderer: "canvas", width: 1000, height: 560 });
  const subtext = [many ? "" : curves.runs[0].name, curves.caption(name, "")].filter(Boolean).join("\n");
  chart.setOption({
    ...option, textStyle: font, animation: false, backgroundColor: of("--surface"),
    title: { text: name, subtext, left: 16, top: 12, textStyle: { ...text, fontSize: 18 }, subtextStyle: { ...font, color: of("--soft"), lineHeight: 17, width: 960, overflow: "truncate" } },
    legend: { show: many, type: "scroll", left: 16, right: 16, bottom: 8, textStyle: text, icon: "roundRect", itemHeight: 4,
      data: [...new Set(curves.runs.map((run) => run.name))] },
    grid: { ...option.grid, left: 20, right: 28, top: subtext.includes("\n") ? 88 : subtext ? 70 : 52, bottom: many ? 62 : 32 },
  });
  save(chart.getDataURL({ pixelRatio: 2 }), name + ".png");
  chart.dispose();
}

export async function csv(curves, name) {
  const cell = (text) => `"${String(text).replaceAll('"', '""')}"`, lines = ["run,step,time,value"];
  let left = "";
  for (const run of curves.runs) {
    const wanted = await rows(curves, run, name, (row) => lines.push([cell(run.name), ...row].join(",")));
    if (wanted > MOST_ROWS) left += ` The file has the first ${curves.grouped(MOST_ROWS)} of ${curves.grouped(wanted)} rows of ${run.name}.`;
  }
  const url = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  save(url, name + ".csv");
  curves.say(`${curves.grouped(lines.length - 1)} rows of ${name} are saved.${left}`);
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function rows(curves, run, name, add) {
  // Every point of the steps that are shown, in parts that the server does not down-sample; how many there are.
  const [from, to] = curves.range, whole = await read(run, name, from, to);
  if (!whole) return 0;
  let first = whole.step[0], width = Infinity, written = 0;
  const last = whole.step[whole.step.length - 1];
  while (first <= last && written < MOST_ROWS) {
    const end = Math.min(last, first + width - 1), part = width === Infinity ? whole : await read(run, name, first, end);
    const count = part?.step.length ?? 0;
    if (part && part.total > count) {
      width = Math.max(AT_ONCE, Math.floor((0.7 * AT_ONCE * (end - first + 1)) / part.total));
      if (width > end - first) throw new Error(`the server gave ${count} of ${part.total} points`);
      continue;
    }
    for (let place = 0; place < count && written < MOST_ROWS; place++, written++)
      add([part.step[place], part.time[place], part.value[place] ?? ""]);
    first = end + 1;
    curves.say(`reading ${curves.grouped(written)} of ${curves.grouped(whole.total)} rows`);
  }
  return whole.total;
}

async function read(run, name, first, last) {
  const query = new URLSearchParams({ name, points: AT_ONCE });
  if (first !== "") query.set("first", first);
  if (last !== "") query.set("last", last);
  const answer = await fetch(`/api/training/jobs/${run.id}/metrics?${query}`);
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail ?? `the server answered ${answer.status}`);
  return (await answer.json()).metrics[name];
}
