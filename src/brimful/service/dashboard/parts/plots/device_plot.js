import { echarts } from "nicegui-echart";
import { h } from "vue";
import { evenMarks } from "/dashboard/marks.js";
import { moment } from "/dashboard/moments.js";

const COLOURS = {
  light: ["#0b6e66", "#b4540a", "#5b4bb3", "#1d5fb0", "#a3245e", "#5c6b00"],
  dark: ["#4cc2b5", "#f2a65a", "#a99bf5", "#84b6f4", "#f08bb4", "#c3d34a"],
};
const MOST = 900; // looks, of half an hour
const SHORTEST = 60_000; // of the time that is shown, in milliseconds
const GB = 1e9;
const USED = "in use by all programs";

export default {
  props: { device: String, memory: Number, budget: Number, history: Array },
  data() {
    this.rows = this.history.map((row) => [...row]);
    this.places = new Map(); // of the jobs among the colours: one that has gone takes none from another
    return { last: this.rows.length ? this.rows[this.rows.length - 1][1] : 0, legend: [], colours: COLOURS.light };
  },
  computed: {
    label() {
      return `Memory of ${this.device} over time: ${(this.last / GB).toFixed(2)} GB in use of ${(this.memory / GB).toFixed(2)} GB`;
    },
  },
  mounted() {
    this.chart = echarts.init(this.$refs.plot);
    this.scheme = window.matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.draw();
    this.scheme.addEventListener("change", this.onScheme);
    this.observer = new ResizeObserver(() => this.chart.resize());
    this.observer.observe(this.$refs.plot);
    this.draw();
  },
  beforeUnmount() {
    this.scheme.removeEventListener("change", this.onScheme);
    this.observer.disconnect();
    this.chart.dispose();
  },
  render() {
    const swatch = (color) => h("span", { class: "swatch", "aria-hidden": "true", style: { background: color } });
    const entries = this.legend.map(({ id, name }) => h("li", { key: id }, [swatch(this.colour(id)), name]));
    return h("div", [
      h("ul", { class: "legend", "aria-label": `Memory of ${this.device}` }, [h("li", { key: "" }, [swatch("var(--soft)"), USED]), ...entries]),
      h("div", { class: "plot", role: "img", "aria-label": this.label, ref: "plot" }),
    ]);
  },
  methods: {
    add(row) {
      if (this.rows.length && row[0] <= this.rows[this.rows.length - 1][0]) return;
      this.rows.push(row);
      if (this.rows.length > MOST) this.rows.splice(0, this.rows.length - MOST);
      this.last = row[1];
      this.draw();
    },
    colour(id) {
      return this.colours[this.places.get(id) % this.colours.length];
    },
    named() {
      // The jobs of the half hour by id, those of one name told apart; the legend has those that are there now.
      const jobs = new Map(), times = new Map();
      this.rows.forEach(([, , list]) => list.forEach(([id, name]) => jobs.set(id, name)));
      jobs.forEach((name) => times.set(name, (times.get(name) ?? 0) + 1));
      jobs.forEach((name, id) => times.get(name) > 1 && jobs.set(id, `${name} (${id.slice(-6)})`));
      jobs.forEach((_, id) => this.places.has(id) || this.places.set(id, this.places.size));
      const now = this.rows.length ? this.rows[this.rows.length - 1][2].map(([id]) => ({ id, name: jobs.get(id) })) : [];
      if (JSON.stringify(now) !== JSON.stringify(this.legend)) this.legend = now;
      return jobs;
    },
    hint(items) {
      // What was in use at that time; of the jobs, those that used any.
      const lines = items.filter(({ seriesId, value }) => seriesId === "used" || value[1] > 0)
        .sort((one, other) => (other.seriesId === "used") - (one.seriesId === "used"))
        .map(({ seriesName, value }) => `${seriesName}  ${(value[1] / GB).toFixed(2)} GB`);
      return [moment(items[0].value[0] / 1000, 8), ...lines].join("\n");
    },
    most() {
      // As high as is used: where that is little, jobs would be slivers below all that there is.
      const used = Math.max(0, ...this.rows.map(([, used, list]) => Math.max(used, list.reduce((sum, job) => sum + job[2], 0))));
      return used < this.budget / 2 ? 1.1 * (used || this.budget) : Math.max(this.memory, this.budget);
    },
    draw() {
      const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
      this.colours = this.scheme.matches ? COLOURS.dark : COLOURS.light;
      const text = { color: of("--soft"), fontFamily: "inherit", fontSize: 11 };
      const series = [...this.named()].map(([id, name]) => ({
        id, name, type: "line", stack: "jobs", showSymbol: false,
        lineStyle: { width: 0 }, areaStyle: { opacity: 0.5 }, color: this.colour(id),
        data: this.rows.map(([time, , list]) => [time * 1000, list.find((job) => job[0] === id)?.[2] ?? 0]),
      }));
      series.push({
        id: "used", name: USED, type: "line", showSymbol: this.rows.length < 2, color: of("--soft"),
        lineStyle: { width: 1.6, color: of("--soft") }, data: this.rows.map(([time, used]) => [time * 1000, used]),
        markLine: { silent: true, symbol: "none", animation: false, lineStyle: { color: of("--warn"), type: "dashed" },
          label: { formatter: "for jobs", position: "insideEndTop", color: of("--warn"), fontSize: 11 },
          data: [{ yAxis: this.budget }] },
      });
      const now = this.rows.length ? this.rows[this.rows.length - 1][0] * 1000 : Date.now();
      const begin = Math.min(now - SHORTEST, this.rows.length ? this.rows[0][0] * 1000 : now);
      const marks = evenMarks(0, this.most() / GB, 5);
      this.chart.setOption({
        animation: false,
        textStyle: text,
        grid: { left: 8, right: 14, top: 28, bottom: 20, containLabel: true },
        xAxis: { type: "time", min: begin, max: now, name: "time", nameLocation: "middle", nameGap: 24, nameTextStyle: text,
          axisLabel: { ...text, hideOverlap: true }, axisLine: { lineStyle: { color: of("--strong") } } },
        yAxis: { type: "value", min: 0, max: marks.ceiling * GB, interval: marks.step * GB, name: "memory, GB",
          nameTextStyle: { ...text, align: "left", padding: [0, 0, 0, -28] },
          axisLabel: { ...text, formatter: (v) => marks.text(v / GB) }, splitLine: { lineStyle: { color: of("--line") } } },
        tooltip: { trigger: "axis", renderMode: "richText", confine: true, backgroundColor: of("--surface"), borderColor: of("--line"),
          textStyle: { color: of("--ink"), fontSize: 12 }, formatter: (items) => this.hint(items) },
        series,
      }, { replaceMerge: ["series"] });
    },
  },
};
