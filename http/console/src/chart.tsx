/*
 * chart.tsx: lines over time, by uPlot.  Labels stand beside the lines, and the
 * numbers under a pointer or a key press above them.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { instant, minuteOf, short, shortDay } from './format';

export interface Line {
	label: string;
	values: (number | null)[];
	look: 'line' | 'forecast' | 'area' | 'bars' | 'quiet';
	unit?: string;
}

function color(name: string): string {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function seriesOf(line: Line): uPlot.Series {
	const base: uPlot.Series = { label: line.label, points: { show: false }, stroke: () => color('--bar'), width: 2 };

	switch (line.look) {
		case 'forecast':
			return { ...base, stroke: () => color('--warn'), dash: [5, 4] };
		case 'area':
			return { ...base, fill: () => color('--soft'), paths: uPlot.paths.stepped?.({ align: 1 }) };
		case 'bars':
			return { ...base, width: 0, fill: () => color('--bar'), paths: uPlot.paths.bars?.({ size: [0.7, 60] }) };
		case 'quiet':
			return { ...base, stroke: () => color('--muted'), width: 1, dash: [2, 3], paths: uPlot.paths.stepped?.({ align: 1 }) };
		default:
			return { ...base, paths: uPlot.paths.stepped?.({ align: 1 }) };
	}
}

/* Write each line's name where it ends. */
function drawLabels(u: uPlot, lines: Line[]): void {
	const { ctx } = u;
	const ratio = window.devicePixelRatio;
	const used: number[] = [];

	ctx.save();
	ctx.textBaseline = 'alphabetic';
	ctx.font = `600 ${12 * ratio}px sans-serif`;
	lines.forEach((line, i) => {
		const last = line.values.reduce<number>((at, value, index) => (value !== null ? index : at), -1);

		if (last < 0 || lines.length < 2) return;
		const x = u.valToPos(u.data[0][last] ?? 0, 'x', true);
		const right = x > u.bbox.left + u.bbox.width * 0.25;
		const width = ctx.measureText(line.label).width + 4 * ratio;
		/* above the line, also where it is higher beside its end */
		const above = line.values.reduce<number>((top, value, index) => {
			const at = u.valToPos(u.data[0][index] ?? 0, 'x', true);

			return value === null || (u.valToPos(u.data[0][index + 1] ?? Infinity, 'x', true) < (right ? x - width : x)) || at > (right ? x : x + width) ? top : Math.min(top, u.valToPos(value, 'y', true));
		}, u.valToPos(line.values[last] ?? 0, 'y', true)) - 6 * ratio;

		/* at the nearest place that no other label has, above it or below it */
		const highest = 12 * ratio;
		const gap = 14 * ratio;
		const wanted = Math.max(above, highest);
		const isFree = (place: number) => place >= highest && used.every((other) => Math.abs(other - place) >= gap);
		let y = wanted;

		for (let n = 2; !isFree(y); n++) y = n % 2 ? wanted - Math.floor(n / 2) * gap : wanted + Math.floor(n / 2) * gap + 6 * ratio;
		used.push(y);
		ctx.fillStyle = color(line.look === 'forecast' ? '--warn' : line.look === 'quiet' ? '--muted' : '--bar');
		ctx.textAlign = right ? 'right' : 'left';
		ctx.fillText(lines[i]?.label ?? '', x, y);
	});
	ctx.restore();
}

/* times: seconds since 1970, one for each value of each line.  whole: what is counted has no fractions. */
export function Chart(props: { times: number[]; lines: Line[]; caption: string; about: string; whole?: boolean; children?: ComponentChildren }) {
	const box = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot>();
	const [at, setAt] = useState<number | null>(null);
	const shape = props.lines.map((line) => `${line.label} ${line.look}`).join();
	const data = [props.times, ...props.lines.map((line) => line.values)] as uPlot.AlignedData;
	const latest = useRef(data);
	const lines = useRef(props.lines);

	latest.current = data;
	lines.current = props.lines;
	useEffect(() => {
		const element = box.current;

		if (!element) return undefined;
		const axis = { stroke: () => color('--muted'), font: '12px sans-serif', grid: { stroke: () => color('--rule'), width: 1 }, ticks: { show: false } };
		const made = new uPlot(
			{
				width: element.clientWidth,
				height: element.clientHeight,
				/* the last time under the axis is as wide as that */
				padding: [18, 22, 0, 0],
				legend: { show: false },
				cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
				scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] } },
				axes: [
					{
						...axis,
						space: 90,
						size: 26,
						gap: 6,
						grid: { show: false },
						values: (_, ticks, __, ___, step) => ticks.map((tick) => (step < 86400 ? minuteOf(tick * 1000) : shortDay(tick * 1000)))
					},
					{ ...axis, size: 48, gap: 4, values: (_, ticks) => ticks.map((tick) => (props.whole && !Number.isInteger(tick) ? '' : short(tick))) }
				],
				series: [{}, ...props.lines.map(seriesOf)],
				hooks: { draw: [(u) => drawLabels(u, lines.current)], setCursor: [(u) => setAt(u.cursor.idx ?? null)] }
			},
			latest.current,
			element
		);

		plot.current = made;
		const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: element.clientHeight }));
		const dark = window.matchMedia('(prefers-color-scheme: dark)');
		const redraw = () => made.redraw();

		observer.observe(element);
		dark.addEventListener('change', redraw);
		return () => {
			observer.disconnect();
			dark.removeEventListener('change', redraw);
			made.destroy();
		};
	}, [shape]);
	useEffect(() => plot.current?.setData(data), [props.times, ...props.lines.map((line) => line.values)]);
	const key = (event: KeyboardEvent) => {
		const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;

		if (step === 0 || !plot.current) return;
		event.preventDefault();
		const next = Math.max(0, Math.min(props.times.length - 1, (at ?? (step > 0 ? -1 : props.times.length)) + step));

		plot.current.setCursor({ left: plot.current.valToPos(props.times[next] ?? 0, 'x'), top: 10 });
	};
	const reading =
		at === null
			? ''
			: [
					instant(new Date((props.times[at] ?? 0) * 1000).toISOString()),
					...props.lines.filter((line) => line.values[at] != null).map((line) => `${line.label} ${short(line.values[at] as number)}${line.unit ?? ''}`)
				].join('  ·  ');

	return (
		<figure>
			<figcaption>
				<span>{props.caption}</span>
				<span class="reading" aria-live="off">{reading}</span>
			</figcaption>
			<div class="chart" ref={box} role="img" aria-label={props.about} tabIndex={0} onKeyDown={key} onBlur={() => setAt(null)} />
			{props.children}
		</figure>
	);
}
