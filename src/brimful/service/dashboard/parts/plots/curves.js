import { echarts } from "nicegui-echart";
import { h } from "vue";
import { duration, evenMarks, grouped, logMarks, logText, rangeOf, short, timeMarks } from "/dashboard/marks.js";

const COLOURS = {
  light: ["#0b6e66", "#b4540a", "#5b4bb3", "#1d5fb0", "#a3245e", "#5c6b00", "#7a4a2b", "#3c5a6b"],
  dark: ["#4cc2b5", "#f2a65a", "#a99bf5", "#84b6f4", "#f08bb4", "#c3d34a", "#d7a583", "#9fc0d3"],
};
const MOST = 3000; // points of a curve before it is read again, fewer

function smooth(points, weight) {
  if (!weight) return points;
  let mean = 0, bias = 1;
  return points.map(([x, y]) => {
    if (!Number.isFinite(y)) return [x, y];
    mean = weight * mean + (1 - weight) * y;
    bias *= weight;
    return [x, mean / (1 - bias)];
  });
}

export default {
  props: { runs: Array, series: Object, totals: Object, plain: Boolean, empty: String },
  data() {
    this.data = JSON.parse(JSON.stringify(this.series)); // not observed by Vue: there may be many points
    this.counts = this.totals ?? {};
    this.range = ["", ""]; // of the steps that are shown
    this.charts = new Map();
    this.drawn = new WeakSet();
    this.observer = new ResizeObserver((entries) => entries.forEach(({ target }) => this.resized(target)));
    return { wide: window.innerWidth >= 640, weight: 0, log: false, byTime: this.plain, from: "", to: "", all: false, none: this.empty, note: "", fault: false, version: 0, colours: COLOURS.light };
  },
  mounted() {
    this.scheme = window.matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.draw(true);
    this.scheme.addEventListener("change", this.onScheme);
    this.observer.observe(this.$el);
    this.draw(true);
  },
  beforeUnmount() {
    this.scheme.removeEventListener("change", this.onScheme);
    this.observer.disconnect();
    this.charts.forEach((chart) => chart.dispose());
  },
  computed: {
    names() {
      this.version;
      const names = new Set();
      const least = this.plain ? 2 : 1; // one look at a device is no curve
      Object.values(this.data).forEach((curves) =>
        Object.entries(curves).forEach(([name, points]) => points.length >= least && names.add(name)));
      const rank = (name) => (/loss/.test(name) ? 0 : 1);
      return [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
    },
    shown() {
      return JSON.stringify(this.visible); // a list would be another one after every point, and all be drawn anew
    },
    visible() {
      return this.all ? this.names : this.names.slice(0, this.wide ? 6 : 4);
    },
  },
  watch: {
    weight() { this.draw(); },
    log() { this.draw(); },
    byTime() { this.draw(); },
    shown() { this.$nextTick(() => this.draw(true)); },
    series(series) { this.replace(series); },
  },
  // Functions in place of a template: Vue's compiler would take longer than all else that a first visit draws.
  render() {
    const left = this.names.length > this.visible.length;
    const known = this.names.length > 0, label = this.plain ? "Use of the device" : "Curves";
    return h("section", { class: ["curve-part", known || this.none ? "" : "hidden"], "aria-label": label }, [
      known && !this.plain ? this.tools() : null,
      known || !this.none ? null : h("p", { class: "empty" }, this.none),
      this.runs.length > 1 ? h("ul", { class: "legend", "aria-label": "Runs" }, this.runs.map((run, place) => this.entry(run, place))) : null,
      h("div", { class: ["curves", this.plain ? "few" : ""] }, this.visible.map((name) => this.plot(name))),
      left ? h("button", { type: "button", class: "button", onClick: () => (this.all = true) }, `Show all ${this.names.length} curves`) : null,
    ]);
  },
  methods: {
    tools() {
      const box = (text, key) => h("label", [h("input", { type: "checkbox", checked: this[key], onChange: ({ target }) => (this[key] = target.checked) }), " " + text]);
      const step = (text, key) => h("label", [text, h("input", { class: "input", type: "number", min: 0, value: this[key], onInput: ({ target }) => (this[key] = target.value), onChange: () => this.apply() })]);
      const all = this.from === "" && this.to === "";
      return h("div", { class: "curve-tools", role: "group", "aria-label": "How curves are drawn" }, [
        h("label", ["Smoothing ", h("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: this.weight, onInput: ({ target }) => (this.weight = Number(target.value)) })]),
        box("Log scale", "log"),
        box("By time", "byTime"),
        h("span", { class: "steps" }, [step("Steps from ", "from"), step("to ", "to"),
          h("button", { type: "button", class: "button", disabled: all, onClick: () => this.reset() }, "All steps")]),
        h("span", { class: this.fault ? "fault" : "muted", role: "status" }, this.note),
      ]);
    },
    entry(run, place) {
      const swatch = { class: "swatch", "aria-hidden": "true", style: { background: this.colours[place % this.colours.length] } };
      return h("li", { key: run.id }, [h("span", swatch), run.name]);
    },
    plot(name) {
      const save = (kind) => h("button", { type: "button", class: "button quiet small", "aria-label": `Save ${name} as ${kind}`, onClick: () => this.save(name, kind.toLowerCase()) }, kind);
      const caption = this.caption(name);
      return h("div", { key: name, class: "curve", "data-metric": name }, [
        h("div", { class: "curve-head" }, [
          h(this.plain ? "h3" : "h2", name),
          h("span", { class: "buttons" }, [h("span", { class: "muted" }, this.latest(name)), save("PNG"), this.plain ? null : save("CSV")]),
        ]),
        h("div", { class: "plot", role: "img", "aria-label": this.summary(name), ref: (element) => this.place(name, element) }),
        caption ? h("p", { class: "caption" }, caption) : null,
      ]);
    },
    place(name, element) {
      if (element && !this.charts.has(name)) this.charts.set(name, this.open(element));
      if (!element && this.charts.has(name)) {
        const chart = this.charts.get(name);
        this.observer.unobserve(chart.getDom());
        chart.dispose();
        this.charts.delete(name);
      }
    },
    open(element) {
      // It is not in the page yet, and has no size: that is looked up when it is drawn, and the observer tells of others.
      const chart = echarts.init(element, null, { renderer: "canvas", width: 1, height: 1 });
      this.observer.observe(element);
      this.selectable(element, chart);
      chart.getZr().on("dblclick", () => this.reset());
      return chart;
    },
    resized(element) {
      this.wide = window.innerWidth >= 640;
      const { clientWidth: width, clientHeight: height } = element;
      const chart = echarts.getInstanceByDom(element);
      const other = chart && (chart.getWidth() !== width || chart.getHeight() !== height);
      if (width && height && other) chart.resize({ width, height });
    },
    selectable(element, chart) {
      // Dragging over a plot chooses its steps. A finger scrolls the page.
      let begin = null, mark = null;
      const place = (event) => event.clientX - element.getBoundingClientRect().left;
      const steps = (pixels) => chart.convertFromPixel({ xAxisIndex: 0 }, pixels);
      element.addEventListener("pointerdown", (event) => {
        const inside = chart.containPixel("grid", [place(event), event.clientY - element.getBoundingClientRect().top]);
        if (event.button || event.pointerType === "touch" || this.byTime || !inside) return;
        begin = place(event);
        element.setPointerCapture(event.pointerId);
        mark = Object.assign(document.createElement("div"), { className: "dragged" });
        element.append(mark);
      });
      element.addEventListener("pointermove", (event) => {
        if (!mark) return;
        mark.style.left = Math.min(begin, place(event)) + "px";
        mark.style.width = Math.abs(place(event) - begin) + "px";
      });
      const end = (event) => {
        if (!mark) return;
        mark.remove();
        mark = null;
        const [low, high] = [begin, place(event)].sort((a, b) => a - b);
        if (event.type !== "pointerup" || high - low < 5) return;
        this.from = Math.max(0, Math.floor(steps(low)));
        this.to = Math.max(this.from, Math.ceil(steps(high)));
        this.apply();
      };
      element.addEventListener("pointerup", end);
      element.addEventListener("pointercancel", end);
    },
    sayIfEmpty(text) {
      this.none = text;
    },
    say(note, fault = false) {
      this.note = note;
      this.fault = fault;
    },
    apply() {
      const number = (text) => (text === "" || text === null ? null : Math.max(0, Math.floor(Number(text))));
      const first = number(this.from), last = number(this.to);
      if (first !== null && last !== null && first > last) {
        this.say(`The first step, ${first}, is after the last, ${last}.`, true);
        return;
      }
      this.range = [first ?? "", last ?? ""];
      this.say("reading these steps");
      this.$emit("zoom", [first, last]);
    },
    reset() {
      this.from = this.to = "";
      this.apply();
    },
    replace(series, totals, asked = null) {
      const known = JSON.stringify(this.range.map((text) => (text === "" || text === null ? null : Number(text))));
      if (asked && JSON.stringify(asked) !== known) return; // an answer to a question before the last one
      const empty = !Object.values(series).some((curves) => Object.keys(curves).length);
      if (empty && this.names.length) {
        this.say("No metric has points in these steps.", true);
        return;
      }
      this.data = JSON.parse(JSON.stringify(series));
      this.counts = totals ?? {};
      this.say("");
      this.version++;
      this.$nextTick(() => this.draw(true));
    },
    append(run, series) {
      if (this.range[1] !== "") return; // someone looks at a part that has ended
      const curves = (this.data[run] ??= {});
      let crowded = false;
      for (const [name, points] of Object.entries(series)) {
        const curve = (curves[name] ??= []);
        const last = curve.length ? curve[curve.length - 1][0] : -1;
        const fresh = points.filter(([step]) => step > last);
        curve.push(...fresh);
        if (this.counts[run]?.[name]) this.counts[run][name] += fresh.length;
        crowded ||= curve.length > MOST;
      }
      this.version++;
      if (crowded) this.apply();
      else this.$nextTick(() => this.grow(Object.keys(series)));
    },
    curve(run, name) {
      const points = this.data[run.id]?.[name] ?? [];
      const begin = points.length ? points[0][1] : 0;
      const drawn = points.map(([step, time, value]) => [this.byTime ? time - begin : step, value]);
      return this.log ? drawn.filter(([, y]) => y > 0).map(([x, y]) => [x, Math.log10(y)]) : drawn;
    },
    lines(name) {
      return this.runs.flatMap((run) => {
        const points = this.curve(run, name);
        return [{ id: run.id + "-raw", data: this.weight ? points : [] },
          { id: run.id, data: smooth(points, this.weight), showSymbol: points.length < 2 }];
      });
    },
    grow(names) {
      // New points alone: axes, colours and hints stay as they are. A plot that is new is drawn whole.
      const charts = names.map((name) => [name, this.charts.get(name)]).filter(([, chart]) => chart);
      if (charts.some(([, chart]) => !this.drawn.has(chart))) return this.draw(true);
      charts.forEach(([name, chart]) => chart.setOption({ series: this.lines(name), ...this.axes(name) }));
    },
    draw(whole = false) {
      this.colours = this.scheme?.matches ? COLOURS.dark : COLOURS.light;
      for (const name of this.visible) {
        const chart = this.charts.get(name);
        if (!chart) continue;
        if (!this.drawn.has(chart)) this.resized(chart.getDom()); // else it would be drawn twice
        chart.setOption(this.option(name), whole ? { notMerge: true } : {});
        this.drawn.add(chart);
      }
    },
    option(name) {
      const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
      const text = { color: of("--soft"), fontFamily: "inherit", fontSize: 11 };
      const series = this.lines(name).map((line, place) => {
        const run = this.runs[place >> 1], color = this.colours[(place >> 1) % this.colours.length];
        const base = { type: "line", showSymbol: false, symbolSize: 5, name: run.name, color, ...line };
        if (place % 2) return { ...base, lineStyle: { width: 1.6, color } };
        return { ...base, silent: true, tooltip: { show: false }, lineStyle: { width: 1, color, opacity: 0.25 } };
      });
      const axes = this.axes(name, text);
      return {
        animation: false, // of axes too: their labels would move with every new point
        grid: { left: 8, right: 14, top: 14, bottom: 20, containLabel: true },
        textStyle: text,
        xAxis: { type: "value", nameLocation: "middle", nameGap: 22, nameTextStyle: text, splitLine: { show: false },
          axisLine: { lineStyle: { color: of("--strong") } }, ...axes.xAxis },
        yAxis: { type: "value", splitLine: { lineStyle: { color: of("--line") } }, ...axes.yAxis },
        tooltip: { trigger: "axis", renderMode: "richText", confine: true, backgroundColor: of("--surface"),
          borderColor: of("--line"), textStyle: { color: of("--ink"), fontSize: 12 },
          formatter: (items) => this.hint(items) },
        series,
      };
    },
    axes(name, text = {}) {
      // Marks at round numbers, which hold for the points that are there now.
      const points = this.runs.flatMap((run) => this.curve(run, name));
      const steps = rangeOf(points.map(([x]) => x)), values = rangeOf(points.map(([, y]) => y).filter(Number.isFinite));
      return { xAxis: this.steppedAxis(steps, text), yAxis: this.log ? this.logAxis(values, text) : this.evenAxis(name, values, text) };
    },
    steppedAxis([first, last], text) {
      if (!Number.isFinite(first)) return {};
      // From zero, where little is wasted by that: the first epoch's end is an odd number to begin with.
      const min = this.byTime || (this.from === "" && first > 0 && first < 0.3 * last) ? 0 : first;
      const max = last > min ? last : min + 1;
      const { marks, unit, text: formatter } = this.byTime ? timeMarks(max) : evenMarks(min, Math.max(max, min + 5));
      const customValues = marks.filter((mark) => mark <= max);
      return { min, max, name: this.byTime ? "time since the first point, " + unit : "step",
        axisLabel: { ...text, formatter, customValues, hideOverlap: true }, axisTick: { customValues } };
    },
    evenAxis(name, [low, high], text) {
      if (!Number.isFinite(low)) return {};
      if (this.plain) [low, high] = [0, /%$/.test(name) ? 100 : high]; // of a device, against nothing
      if (high - low < 1e-9 * Math.abs(high) || high === low) [low, high] = [low - (Math.abs(low) / 20 || 0.5), high + (Math.abs(high) / 20 || 0.5)];
      const { step, floor, ceiling, text: formatter } = evenMarks(low, high);
      return { min: floor, max: ceiling, interval: step, axisLabel: { ...text, formatter, customValues: null }, axisTick: { customValues: null } };
    },
    logAxis([min, max], text) {
      // Logarithms on an even axis: one of whole decades would show a curve from 2.4 to 2.8 flat.
      if (!Number.isFinite(min)) return {};
      if (max - min < 1e-6) [min, max] = [min - 0.05, max + 0.05];
      const marks = logMarks(min, max), places = marks.length ? marks : null;
      return { min, max, interval: null, axisLabel: { ...text, formatter: logText(marks), customValues: places }, axisTick: { customValues: places } };
    },
    caption(name, hint = "; zoom in for all") {
      // What the plot does not show.
      this.version;
      const parts = [];
      let drawn = 0, all = 0, dropped = 0;
      for (const run of this.runs) {
        const points = this.data[run.id]?.[name] ?? [];
        drawn += points.length;
        all += Math.max(points.length, this.counts[run.id]?.[name] ?? 0);
        if (this.log) dropped += points.filter(([, , y]) => y <= 0).length;
      }
      if (all > drawn && !this.plain) parts.push(`${grouped(drawn)} of ${grouped(all)} points${hint}`);
      if (dropped) parts.push(`${grouped(dropped)} values of zero or less have no place on a log scale`);
      return parts.join(". ");
    },
    hint(items) {
      if (!items.length) return "";
      const lines = items.map((item) => (this.runs.length > 1 ? item.seriesName + "  " : "") + short(this.log ? 10 ** item.value[1] : item.value[1]));
      const at = items[0].value[0];
      return [this.byTime ? duration(at) : "step " + grouped(at), ...lines].join("\n");
    },
    latest(name) {
      this.version;
      if (this.runs.length > 1) return "";
      const points = this.data[this.runs[0].id]?.[name] ?? [];
      return points.length ? short(points[points.length - 1][2]) : "";
    },
    summary(name) {
      this.version;
      const parts = this.runs.map((run) => {
        const points = (this.data[run.id]?.[name] ?? []).filter((point) => Number.isFinite(point[2]));
        if (!points.length) return run.name + ": no values";
        const values = points.map((point) => point[2]), last = points[points.length - 1];
        const least = values.reduce((a, b) => Math.min(a, b)), most = values.reduce((a, b) => Math.max(a, b));
        return `${run.name}: ${short(last[2])} at step ${last[0]}, from ${short(least)} to ${short(most)}`;
      });
      return `Curve of ${name}. ${parts.join(". ")}`;
    },
    points() {
      return Object.fromEntries(this.names.map((name) => [name, this.runs.map((run) => (this.data[run.id]?.[name] ?? []).length)]));
    },
    grouped,
    async save(name, kind) {
      try {
        await (await import("/dashboard/saving.js"))[kind](this, name);
      } catch (error) {
        this.say(`No file was saved: ${error.message}`, true);
      }
    },
  },
};
