export default {
  template: `
    <div class="field">
      <label for="upload">Upload a file</label>
      <input id="upload" class="input" type="file" @change="send" aria-describedby="upload-note">
      <progress v-if="share !== null" :value="share" max="1" aria-label="Part of the file that is sent"></progress>
      <span id="upload-note" :class="fault ? 'fault' : 'help'" role="status">{{ note }}</span>
    </div>`,
  data() {
    return { share: null, note: "Parquet, CSV, NumPy, safetensors, JSON, text, Python, or a zip of them", fault: false };
  },
  methods: {
    send(event) {
      const file = event.target.files[0];
      if (!file) return;
      const request = new XMLHttpRequest();
      request.open("POST", "/api/uploads?" + new URLSearchParams({ name: file.name }));
      request.setRequestHeader("content-type", "application/octet-stream");
      request.upload.onprogress = (progress) => {
        this.share = progress.lengthComputable ? progress.loaded / progress.total : null;
      };
      request.onload = () => {
        let answer = {};
        try { answer = JSON.parse(request.responseText); } catch { /* no JSON: the status says enough */ }
        this.share = null;
        this.fault = request.status !== 201;
        this.note = this.fault ? answer.detail || "the server refused it" : file.name + " is uploaded";
        if (!this.fault) this.$emit("uploaded", [answer.id, file.name]);
      };
      request.onerror = () => {
        this.share = null;
        this.fault = true;
        this.note = "the connection broke; choose the file again";
      };
      this.fault = false;
      this.note = "sending " + file.name;
      request.send(file);
    },
  },
};
