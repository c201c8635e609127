import { iso, moment } from "/dashboard/moments.js";

const COLUMNS = [
  ["Name", "name"], ["State", "state"], ["Progress", null], ["Left", null, "number"], ["Rate", null, "number"],
  ["Memory", null, "number"], ["Took", null, "number"], ["Created", "created", "number"],
];
const SORTS = { "-created": "newest first", created: "oldest first", name: "name", "-name": "name, from the last", state: "state", "-priority": "priority" };

export default {
  template: `
    <div>
    <div class="table-tools">
      <label><input type="checkbox" :checked="all" :indeterminate.prop="some && !all" @change="selectAll"> Select all</label>
      <label>Sort by <select class="input" :value="sort" @change="$emit('sort', $event.target.value)">
        <option v-for="(name, key) in sorts" :key="key" :value="key">{{ name }}</option></select></label>
    </div>
    <div class="scroll" role="region" aria-label="Jobs, table" tabindex="0">
    <table class="table jobs">
      <caption class="unseen">Jobs</caption>
      <thead><tr>
        <th scope="col" class="check"><input type="checkbox" aria-label="Select all jobs on this page"
          :checked="all" :indeterminate.prop="some && !all" @change="selectAll"></th>
        <th v-for="[name, key, kind] in columns" :key="name" scope="col" :class="kind" :aria-sort="order(key)">
          <button v-if="key" type="button" class="sort" @click="sortBy(key)">{{ name }}<span aria-hidden="true"
            class="arrow">{{ arrow(key) }}</span></button>
          <template v-else>{{ name }}</template>
        </th>
      </tr></thead>
      <tbody>
        <tr v-for="row in items" :key="row.id" :class="{ chosen: chosen.has(row.id) }" :data-job="row.id">
          <td class="check"><input type="checkbox" :aria-label="'Select ' + row.name" :checked="chosen.has(row.id)"
            @change="toggle(row.id)"></td>
          <th scope="row" class="name"><a :href="'/jobs/' + row.id">{{ row.name }}</a>
            <span class="what">{{ row.what }}</span>
            <span v-if="row.message" class="why">{{ row.message }}</span></th>
          <td data-label="State"><span class="state" :class="row.state">{{ row.state }}</span></td>
          <td data-label="Progress" class="progress-cell">
            <progress v-if="row.fraction !== null && row.state !== 'finished'" :value="row.fraction" max="1" :class="row.state"
              :aria-label="'Progress of ' + row.name"></progress>
            <span class="sub">{{ row.progress }}</span></td>
          <td data-label="Left" class="number">{{ row.left }}</td>
          <td data-label="Rate" class="number">{{ row.rate }}</td>
          <td data-label="Memory" class="number">{{ row.memory }}</td>
          <td data-label="Took" class="number">{{ row.took }}</td>
          <td data-label="Created" class="number"><time :datetime="iso(row.created)">{{ moment(row.created) }}</time></td>
        </tr>
      </tbody>
    </table>
    </div>
    </div>`,
  props: { rows: Array, sort: String },
  data() {
    return { items: [...this.rows], chosen: new Set(), columns: COLUMNS };
  },
  mounted() {
    // The page of a job draws with it: whoever opens one from here does not wait for it.
    setTimeout(() => import("nicegui-echart").catch(() => {}), 300);
  },
  computed: {
    sorts() {
      return this.sort in SORTS ? SORTS : { ...SORTS, [this.sort]: this.sort };
    },
    all() {
      return this.items.length > 0 && this.items.every((row) => this.chosen.has(row.id));
    },
    some() {
      return this.items.some((row) => this.chosen.has(row.id));
    },
  },
  watch: {
    rows(rows) {
      this.items = [...rows]; // what was selected on another page stays selected
    },
  },
  methods: {
    patch(rows) {
      for (const row of rows) {
        const place = this.items.findIndex((item) => item.id === row.id);
        if (place >= 0) this.items[place] = row;
      }
    },
    order(key) {
      if (!key) return undefined;
      return this.sort === key ? "ascending" : this.sort === "-" + key ? "descending" : "none";
    },
    arrow(key) {
      return this.sort === key ? "↑" : this.sort === "-" + key ? "↓" : "";
    },
    sortBy(key) {
      // The first click sorts as one reads: names from A, times from the newest.
      const first = key === "created" ? "-created" : key;
      const other = first.startsWith("-") ? key : "-" + key;
      this.$emit("sort", this.sort === first ? other : first);
    },
    toggle(id) {
      const chosen = new Set(this.chosen);
      chosen.has(id) ? chosen.delete(id) : chosen.add(id);
      this.chosen = chosen;
      this.report();
    },
    selectAll() {
      const chosen = new Set(this.chosen), all = this.all;
      this.items.forEach((row) => (all ? chosen.delete(row.id) : chosen.add(row.id)));
      this.chosen = chosen;
      this.report();
    },
    clear() {
      this.chosen = new Set();
      this.report();
    },
    report() {
      this.$emit("select", [...this.chosen]);
    },
    iso,
    moment,
  },
};
