import { defineConfig } from 'vite';

/* During development the pages come from Vite and the rest from a daemon. */
const daemon = process.env.GPUCREDITD ?? 'http://127.0.0.1:8086';

export default defineConfig({
	base: '/console/',
	esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
	build: { target: 'es2021', modulePreload: { polyfill: false }, assetsInlineLimit: 0 },
	server: { proxy: { '/v1': { target: daemon, changeOrigin: false } } }
});
