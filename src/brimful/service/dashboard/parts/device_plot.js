import { echarts } from "nicegui-echart";

const COLOURS = {
  light: ["#0b6e66", "#b4540a", "#5b4bb3", "#1d5fb0", "#a3245e", "#5c6b00"],
  dark: ["#4cc2b5", "#f2a65a", "#a99bf5", "#84b6f4", "#f08bb4", "#c3d34a"],
};
const MOST = 900; // looks, of half an hour
const SHORTEST = 60_000; // of the time that is shown, in milliseconds

export default {
  template: `<div class="plot" role="img" :aria-label="label"></div>`,
  props: { device: String, memory: Number, budget: Number, history: Array },
  data() {
    this.rows = this.history.map((row) => [...row]);
    this.places = new Map(); // of the jobs among the colours: one that has gone takes none from another
    return { last: this.rows.length ? this.rows[this.rows.length - 1][1] : 0 };
  },
  computed: {
    label() {
      return `Memory of ${this.device} over time: ${(this.last / 1e9).toFixed(2)} GB in use of ${(this.memory / 1e9).toFixed(2)} GB`;
    },
  },
  mounted() {
    this.chart = echarts.init(this.$el);
    this.scheme = window.matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.draw();
    this.scheme.addEventListener("change", this.onScheme);
    this.observer = new ResizeObserver(() => this.chart.resize());
    this.observer.observe(this.$el);
    this.draw();
  },
  beforeUnmount() {
    this.scheme.removeEventListener("change", this.onScheme);
    this.observer.disconnect();
    this.chart.dispose();
  },
  methods: {
    add(row) {
      if (this.rows.length && row[0] <= this.rows[this.rows.length - 1][0]) return;
      this.rows.push(row);
      if (this.rows.length > MOST) this.rows.splice(0, this.rows.length - MOST);
      this.last = row[1];
      this.draw();
    },
    draw() {
      const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
      const colours = this.scheme.matches ? COLOURS.dark : COLOURS.light;
      const text = { color: of("--soft"), fontFamily: "inherit", fontSize: 11 };
      const jobs = new Map();
      this.rows.forEach(([, , list]) => list.forEach(([id, name]) => jobs.set(id, name)));
      jobs.forEach((_, id) => this.places.has(id) || this.places.set(id, this.places.size));
      const series = [...jobs].map(([id, name]) => ({
        id, name, type: "line", step: "end", stack: "jobs", showSymbol: false,
        lineStyle: { width: 0 }, areaStyle: { opacity: 0.5 }, color: colours[this.places.get(id) % colours.length],
        data: this.rows.map(([time, , list]) => [time * 1000, list.find((job) => job[0] === id)?.[2] ?? 0]),
      }));
      series.push({
        id: "used", name: "in use", type: "line", showSymbol: this.rows.length < 2, color: of("--soft"),
        lineStyle: { width: 1.6, color: of("--soft") }, data: this.rows.map(([time, used]) => [time * 1000, used]),
        markLine: { silent: true, symbol: "none", lineStyle: { color: of("--warn"), type: "dashed" },
          label: { formatter: "for jobs", position: "insideEndTop", color: of("--warn"), fontSize: 11 },
          data: [{ yAxis: this.budget }] },
      });
      const now = this.rows.length ? this.rows[this.rows.length - 1][0] * 1000 : Date.now();
      const begin = Math.min(now - SHORTEST, this.rows.length ? this.rows[0][0] * 1000 : now);
      this.chart.setOption({
        animation: false,
        grid: { left: 8, right: 14, top: 30, bottom: 4, containLabel: true },
        legend: { data: ["in use", ...new Set(jobs.values())], top: 0, left: 0, icon: "roundRect", itemWidth: 10, itemHeight: 10, textStyle: text, type: "scroll" },
        xAxis: { type: "time", min: begin, max: now, axisLabel: { ...text, hideOverlap: true }, axisLine: { lineStyle: { color: of("--strong") } } },
        yAxis: { type: "value", min: 0, max: Math.max(this.memory, this.budget), axisLabel: { ...text, formatter: (v) => (v / 1e9).toFixed(0) + " GB" },
          splitLine: { lineStyle: { color: of("--line") } } },
        tooltip: { trigger: "axis", renderMode: "richText", confine: true, backgroundColor: of("--surface"), borderColor: of("--line"),
          textStyle: { color: of("--ink"), fontSize: 12 }, valueFormatter: (v) => (v / 1e9).toFixed(2) + " GB" },
        series,
      }, { replaceMerge: ["series"] });
    },
  },
};
