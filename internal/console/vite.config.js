import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  build: { target: "es2022", modulePreload: false, assetsInlineLimit: 0, cssCodeSplit: false, reportCompressedSize: false },
  server: { proxy: { "/v1": "http://127.0.0.1:7411" } },
});
