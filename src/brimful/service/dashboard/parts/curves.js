import { echarts } from "nicegui-echart";

const COLOURS = {
  light: ["#0b6e66", "#b4540a", "#5b4bb3", "#1d5fb0", "#a3245e", "#5c6b00", "#7a4a2b", "#3c5a6b"],
  dark: ["#4cc2b5", "#f2a65a", "#a99bf5", "#84b6f4", "#f08bb4", "#c3d34a", "#d7a583", "#9fc0d3"],
};
const COMPACT = Intl.NumberFormat("en", { notation: "compact" }); // made once: that takes longer than to use it
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

function short(value) {
  if (!Number.isFinite(value)) return "not finite";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(+value.toPrecision(5));
}

export default {
  template: `
    <section class="curve-part" aria-label="Curves">
      <div class="curve-tools" role="group" aria-label="How curves are drawn">
        <label>Smoothing <input type="range" min="0" max="0.98" step="0.02" v-model.number="weight"></label>
        <label><input type="checkbox" v-model="log"> Log scale</label>
        <label><input type="checkbox" v-model="byTime"> By time</label>
        <span class="steps"><label>Steps from <input class="input" type="number" min="0" v-model="from"
          @change="apply"></label><label>to <input class="input" type="number" min="0" v-model="to"
          @change="apply"></label>
          <button type="button" class="button" @click="reset" :disabled="from === '' && to === ''">All steps</button></span>
        <span class="muted" role="status">{{ note }}</span>
      </div>
      <p v-if="!names.length" class="empty">No metrics yet. They appear here as the job reports them.</p>
      <ul v-if="runs.length > 1" class="legend" aria-label="Runs">
        <li v-for="(run, place) in runs" :key="run.id"><span class="swatch" aria-hidden="true"
          :style="{ background: colours[place % colours.length] }"></span>{{ run.name }}</li>
      </ul>
      <div class="curves">
        <div v-for="name in visible" :key="name" class="curve" :data-metric="name">
          <div class="curve-head">
            <h2>{{ name }}</h2>
            <span class="buttons"><span class="muted">{{ latest(name) }}</span>
              <button type="button" class="button quiet small" :aria-label="'Save ' + name + ' as PNG'"
                @click="png(name)">PNG</button>
              <button type="button" class="button quiet small" :aria-label="'Save ' + name + ' as CSV'"
                @click="csv(name)">CSV</button></span>
          </div>
          <div class="plot" role="img" :aria-label="summary(name)" :ref="(element) => place(name, element)"></div>
        </div>
      </div>
      <button v-if="names.length > visible.length" type="button" class="button" @click="all = true">
        Show all {{ names.length }} curves</button>
    </section>`,
  props: { runs: Array, series: Object },
  data() {
    this.data = JSON.parse(JSON.stringify(this.series)); // not observed by Vue: there may be many points
    this.charts = new Map();
    this.drawn = new WeakSet();
    this.observer = new ResizeObserver((entries) => entries.forEach(({ target }) => this.resized(target)));
    return { wide: window.innerWidth >= 640, weight: 0, log: false, byTime: false, from: "", to: "", all: false, note: "", version: 0, colours: COLOURS.light };
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
      Object.values(this.data).forEach((curves) => Object.keys(curves).forEach((name) => names.add(name)));
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
  methods: {
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
      // It is not in the page yet, and has no size: the observer tells both.
      const chart = echarts.init(element, null, { renderer: "canvas", width: 1, height: 1 });
      this.observer.observe(element);
      this.selectable(element, chart);
      chart.getZr().on("dblclick", () => this.reset());
      return chart;
    },
    resized(element) {
      this.wide = window.innerWidth >= 640;
      const { clientWidth: width, clientHeight: height } = element;
      if (width && height) echarts.getInstanceByDom(element)?.resize({ width, height });
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
    apply() {
      const number = (text) => (text === "" || text === null ? null : Math.max(0, Math.floor(Number(text))));
      this.note = "reading these steps";
      this.$emit("zoom", [number(this.from), number(this.to)]);
    },
    reset() {
      this.from = this.to = "";
      this.apply();
    },
    replace(series) {
      this.data = JSON.parse(JSON.stringify(series));
      this.note = "";
      this.version++;
      this.$nextTick(() => this.draw(true));
    },
    append(run, series) {
      if (this.to !== "") return; // someone looks at a part that has ended
      const curves = (this.data[run] ??= {});
      let crowded = false;
      for (const [name, points] of Object.entries(series)) {
        const curve = (curves[name] ??= []);
        const last = curve.length ? curve[curve.length - 1][0] : -1;
        curve.push(...points.filter(([step]) => step > last));
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
      return this.log ? drawn.filter(([, y]) => y > 0) : drawn;
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
      charts.forEach(([name, chart]) => chart.setOption({ series: this.lines(name) }));
    },
    draw(whole = false) {
      const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
      const colours = (this.colours = this.scheme?.matches ? COLOURS.dark : COLOURS.light);
      const text = { color: of("--soft"), fontFamily: "inherit", fontSize: 11 };
      for (const name of this.visible) {
        const chart = this.charts.get(name);
        if (!chart) continue;
        const series = this.lines(name).map((line, place) => {
          const run = this.runs[place >> 1], color = colours[(place >> 1) % colours.length];
          const base = { type: "line", showSymbol: false, symbolSize: 5, animation: false, name: run.name, color, ...line };
          if (place % 2) return { ...base, lineStyle: { width: 1.6, color } };
          return { ...base, silent: true, tooltip: { show: false }, lineStyle: { width: 1, color, opacity: 0.25 } };
        });
        chart.setOption({
          grid: { left: 8, right: 14, top: 14, bottom: 4, containLabel: true },
          textStyle: text,
          xAxis: { type: "value", min: (range) => this.begin(range), max: "dataMax", axisLabel: { ...text, formatter: (v) => this.tick(v), hideOverlap: true },
            splitLine: { show: false }, axisLine: { lineStyle: { color: of("--strong") } } },
          yAxis: { type: this.log ? "log" : "value", scale: true, axisLabel: { ...text, formatter: short },
            splitLine: { lineStyle: { color: of("--line") } } },
          tooltip: { trigger: "axis", renderMode: "richText", confine: true, backgroundColor: of("--surface"),
            borderColor: of("--line"), textStyle: { color: of("--ink"), fontSize: 12 },
            formatter: (items) => this.hint(items) },
          series,
        }, whole ? { notMerge: true } : {});
        this.drawn.add(chart);
      }
    },
    begin({ min, max }) {
      // From zero, where little is wasted by that: the first epoch's end is an odd number to begin with.
      return this.from === "" && min > 0 && min < 0.3 * max ? 0 : min;
    },
    tick(value) {
      if (!this.byTime) return COMPACT.format(value);
      return value < 120 ? Math.round(value) + " s" : value < 7200 ? Math.round(value / 60) + " min" : (value / 3600).toFixed(1) + " h";
    },
    hint(items) {
      if (!items.length) return "";
      const lines = items.map((item) => (this.runs.length > 1 ? item.seriesName + "  " : "") + short(item.value[1]));
      return [(this.byTime ? "" : "step ") + this.tick(items[0].value[0]), ...lines].join("\n");
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
    save(href, file) {
      const anchor = document.createElement("a");
      anchor.href = href;
      anchor.download = file;
      anchor.click();
    },
    png(name) {
      const ground = getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
      this.save(this.charts.get(name).getDataURL({ pixelRatio: 2, backgroundColor: ground }), name + ".png");
    },
    async csv(name) {
      const cell = (text) => `"${String(text).replaceAll('"', '""')}"`, lines = ["run,step,time,value"];
      for (const run of this.runs) {
        const query = new URLSearchParams({ name, points: "100000" });
        if (this.from !== "") query.set("first", this.from);
        if (this.to !== "") query.set("last", this.to);
        const answer = await (await fetch(`/api/training/jobs/${run.id}/metrics?${query}`)).json();
        const curve = answer.metrics?.[name];
        curve?.step.forEach((step, place) => lines.push([cell(run.name), step, curve.time[place], curve.value[place] ?? ""].join(",")));
      }
      const url = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
      this.save(url, name + ".csv");
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    },
  },
};
