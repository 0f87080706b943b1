// measure.js: what a reader of report_html()'s page sees, in numbers
//
// test/t/092_report.pl adds this to a page and opens it in a frame.  It sends
// its measures to the frame's parent as JSON.
addEventListener('load', () => {
	const parts = colour => (colour.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
	const luminance = colour => {
		const [r, g, b] = parts(colour).map(v => (v /= 255) <= 0.04045
			? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const contrast = (a, b) => {
		const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
		return (x + 0.05) / (y + 0.05);
	};
	// the colour behind an element
	const ground = element => {
		for (let e = element; e; e = e.parentElement) {
			const colour = getComputedStyle(e).backgroundColor;
			if (parts(colour).length < 4 || parts(colour)[3] > 0)
				return colour;
		}
		return 'rgb(255, 255, 255)';
	};
	const name = e => e.tagName + '.' + (e.className.baseVal ?? e.className)
		+ ': ' + e.textContent.slice(0, 30);
	const m = { dark: matchMedia('(prefers-color-scheme: dark)').matches,
		title: document.title, scripts: document.scripts.length, small: 99,
		wide: [], faint: [], dim: [], mute: [], wrong: [], wrapped: [],
		hidden: [], zero: [], numbers: [] };

	document.querySelectorAll('details').forEach(d => { d.open = true; });
	m.scroll = document.documentElement.scrollWidth;
	document.querySelectorAll('main *').forEach(e => {
		const box = e.getBoundingClientRect();
		if (!e.closest('thead') && box.width > 0
			&& (box.right > innerWidth + 0.5 || box.left < -0.5))
			m.wide.push(name(e));
		if (e.closest('svg') || ![...e.childNodes].some(n =>
			n.nodeType == 3 && n.textContent.trim()))
			return;
		const style = getComputedStyle(e);
		m.small = Math.min(m.small, parseFloat(style.fontSize));
		if (contrast(style.color, ground(e)) < 4.5)
			m.faint.push(name(e));
	});
	document.querySelectorAll('rect.bar, rect.tick, .line, .out, .zero, .expiry')
		.forEach(e => {
			const style = getComputedStyle(e);
			if (contrast(style.fill == 'none' ? style.stroke : style.fill,
				ground(e.closest('div, td'))) < 3)
				m.dim.push(name(e));
		});
	// a name of usual length on two lines, words over others, columns of zeros
	document.querySelectorAll('tbody th bdi').forEach(e => {
		if (e.textContent.length <= 24 && e.getBoundingClientRect().height
			> 1.9 * parseFloat(getComputedStyle(e).fontSize))
			m.wrapped.push(name(e));
	});
	const words = [...document.querySelectorAll('.mark, .scale span')]
		.map(e => [e, e.getBoundingClientRect()]).filter(w => w[1].width > 0);
	words.forEach(([e, a], i) => words.slice(0, i).forEach(([, b]) => {
		if (a.left < b.right && b.left < a.right && a.top < b.bottom - 1
			&& b.top < a.bottom - 1)
			m.hidden.push(name(e));
	}));
	document.querySelectorAll('table').forEach(t => {
		t.querySelectorAll('thead th').forEach((head, i) => {
			const cells = [...t.querySelectorAll('tbody tr')]
				.map(r => r.cells[i].textContent);
			if (head.className == 'n' && cells.length > 0 && !/Net|Share|Due|Used|Weight|Started|Available/
				.test(head.textContent) && cells.every(c => /^[-0.,\u2013]*$/.test(c)))
				m.zero.push(t.id + ': ' + head.textContent);
		});
	});
	document.querySelectorAll('svg').forEach(e => {
		const t = e.querySelector(':scope > title');
		const d = e.querySelector(':scope > desc');
		if (e.getAttribute('role') != 'img' || !t || !d || !t.textContent
			|| !d.textContent
			|| e.getAttribute('aria-labelledby') != t.id + ' ' + d.id
			|| document.querySelectorAll('#' + t.id).length > 1)
			m.mute.push(name(e));
	});
	document.querySelectorAll('td, dd').forEach(e => {
		for (const [key, value] of Object.entries(e.dataset)) {
			if (!['net', 'spent', 'refunded', 'available', 'held', 'perDay']
				.includes(key))
				continue;
			const text = e.textContent.replace(/,/g, '').replace('\u2212', '-');
			const row = e.closest('tr');
			if (text != value)
				m.wrong.push(key + ' ' + value + ' reads ' + text);
			if (row)
				m.numbers.push({ table: e.closest('table').id, key, value,
					sum: row.classList.contains('sum') ? 1 : 0,
					org: row.dataset.org, type: row.dataset.type });
		}
	});
	document.querySelectorAll('details').forEach(d => { d.open = false; });
	for (const list of [m.wide, m.faint, m.dim, m.wrong, m.wrapped, m.hidden])
		list.splice(5);
	parent.postMessage(JSON.stringify(m), '*');
});
