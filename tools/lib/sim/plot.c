/*
 * plot.c
 *	  Draws a replay: the part of the cluster in use, and what waits, over
 *	  time; one panel for each policy, as SVG.
 *
 * Each panel keeps a column of pixels' worth of means.  What waits is drawn on
 * the scale of the cluster: 2 means that jobs ask for twice its GPUs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define COLUMNS		900
#define PANEL		160
#define MARGIN		60

typedef struct Sample
{
	int64_t		at;
	double		busy;
	double		waiting;
} Sample;

typedef struct Panel
{
	char	   *name;
	Sample	   *samples;
	int32_t		n;
	int32_t		capacity;
} Panel;

typedef struct SimPlot
{
	char	   *file;
	Panel	   *panels;
	int32_t		n;
	int32_t		capacity;
} SimPlot;

SimPlot *
SimPlotOpen(const char *file)
{
	SimPlot    *plot = SimAlloc(1, sizeof(SimPlot));

	plot->file = strdup(file);
	return plot;
}

/*
 * The samples that follow are of another policy.
 */
void
SimPlotPolicy(SimPlot *plot, const char *name)
{
	plot->panels = SimGrow(plot->panels, plot->n, &plot->capacity,
						   sizeof(Panel));
	memset(&plot->panels[plot->n], 0, sizeof(Panel));
	plot->panels[plot->n++].name = strdup(name);
}

/*
 * From this instant to the next sample, so much is in use and waits.
 */
void
SimPlotSample(SimPlot *plot, int64_t at, double busy, double waiting)
{
	Panel	   *panel = &plot->panels[plot->n - 1];

	panel->samples = SimGrow(panel->samples, panel->n, &panel->capacity,
							 sizeof(Sample));
	panel->samples[panel->n++] = (Sample){at, busy, waiting};
}

/*
 * The mean of a column's time; a column without time has the value at it.
 */
static void
column_means(const Panel *panel, int64_t span, double *busy, double *waiting)
{
	int32_t		s = 0;
	int			c;

	for (c = 0; c < COLUMNS; c++)
	{
		int64_t		from = span / COLUMNS * c;
		int64_t		until = span / COLUMNS * (c + 1);
		double		sum_busy = 0;
		double		sum_waiting = 0;
		int64_t		at = from;

		while (s + 1 < panel->n && panel->samples[s + 1].at <= from)
			s++;
		for (; at < until;)
		{
			int64_t		end = s + 1 < panel->n &&
				panel->samples[s + 1].at < until ?
				panel->samples[s + 1].at : until;

			end = end > at ? end : at;
			sum_busy += panel->samples[s].busy * (double) (end - at);
			sum_waiting += panel->samples[s].waiting * (double) (end - at);
			at = end;
			if (at < until)
				s++;
		}
		busy[c] = until > from ? sum_busy / (double) (until - from) : 0;
		waiting[c] = until > from ? sum_waiting / (double) (until - from) : 0;
	}
}

static void
draw_line(FILE *out, const double *values, double most, double top,
		  const char *style)
{
	int			c;

	fprintf(out, "<polyline class=\"%s\" points=\"", style);
	for (c = 0; c < COLUMNS; c++)
		fprintf(out, "%d,%.1f ", MARGIN + c,
				top + PANEL * (1 - values[c] / most));
	fprintf(out, "\"/>\n");
}

static void
draw_panel(FILE *out, const Panel *panel, int64_t span, double top,
		   double most)
{
	double		busy[COLUMNS];
	double		waiting[COLUMNS];

	column_means(panel, span, busy, waiting);
	fprintf(out, "<text class=\"name\" x=\"%d\" y=\"%.0f\">%s</text>\n",
			MARGIN, top - 8, panel->name);
	fprintf(out, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%.1f</text>\n"
			"<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">0</text>\n"
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">1</text>\n",
			MARGIN - 6, top + 10, most, MARGIN - 6, top + PANEL,
			MARGIN - 6, top + PANEL * (1 - 1 / most) + 4);
	fprintf(out, "<path class=\"axis\" d=\"M%d %.1fV%.1fH%d M%d %.1fH%d\"/>\n",
			MARGIN, top, top + PANEL, MARGIN + COLUMNS, MARGIN,
			top + PANEL * (1 - 1 / most), MARGIN + COLUMNS);
	draw_line(out, waiting, most, top, "waiting");
	draw_line(out, busy, most, top, "busy");
}

/*
 * The scales that all panels share.
 */
static void
scales(const SimPlot *plot, int64_t *span, double *most)
{
	int32_t		p;
	int32_t		s;

	*span = COLUMNS;
	*most = 1.2;
	for (p = 0; p < plot->n; p++)
	{
		const Panel *panel = &plot->panels[p];

		for (s = 0; s < panel->n; s++)
		{
			if (panel->samples[s].at > *span)
				*span = panel->samples[s].at;
			if (panel->samples[s].waiting > *most)
				*most = panel->samples[s].waiting;
		}
	}
}

/*
 * Write the picture.
 */
void
SimPlotClose(SimPlot *plot)
{
	FILE	   *out = fopen(plot->file, "w");
	int			height = 70 + plot->n * (PANEL + 50);
	int64_t		span;
	double		most;
	int32_t		p;

	if (out == NULL)
		SimDie("%s: cannot be written", plot->file);
	scales(plot, &span, &most);
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\""
			" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n"
			"<style>svg{background:#fff}text{fill:#555}.name{fill:#111;"
			"font-weight:600}.axis{stroke:#ccc;fill:none}"
			"polyline{fill:none;stroke-width:1.2}.busy{stroke:#1a6fb5}"
			".waiting{stroke:#c8641a}.k1{fill:#1a6fb5}.k2{fill:#c8641a}"
			"@media(prefers-color-scheme:dark){svg{background:#161616}"
			"text{fill:#aaa}.name{fill:#eee}.axis{stroke:#444}"
			".busy{stroke:#5aa9e6}.waiting{stroke:#e6965a}}</style>\n",
			COLUMNS + 2 * MARGIN, height);
	fprintf(out, "<text x=\"%d\" y=\"20\"><tspan class=\"k1\">GPUs in use"
			"</tspan> and <tspan class=\"k2\">GPUs that waiting jobs ask for"
			"</tspan>, as parts of the cluster, over %.1f days</text>\n",
			MARGIN, (double) span / (double) DAY);
	for (p = 0; p < plot->n; p++)
		draw_panel(out, &plot->panels[p], span, 60 + p * (PANEL + 50), most);
	fprintf(out, "</svg>\n");
	if (fclose(out) != 0)
		SimDie("%s: cannot be written", plot->file);
}
