import { MetricSeries } from '../../model/series';
import { Chart } from './chart';

/** One curve for a table of points. */
export interface IColumn {
  run: string;
  series: MetricSeries;
}

/** The points of several runs' metric as CSV; `isWhole` of each series says whether points were left out. */
export function toCsv(metric: string, columns: IColumn[]): string {
  const rows = ['run,metric,step,time,value'];
  for (const { run, series } of columns) {
    const start = `${quoted(run)},${quoted(metric)}`;
    for (let index = 0; index < series.length; index++) {
      const step = series.steps.at(index);
      const time = series.times.at(index);
      rows.push(`${start},${step},${time},${series.values.at(index)}`);
    }
  }
  return `${rows.join('\r\n')}\r\n`;
}

/** `text` as a field; a spreadsheet must not take a name for a formula. */
function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

/** A picture of the chart with a title and the names of its curves. */
export async function toPng(chart: Chart, title: string): Promise<Blob> {
  const canvas = chart.canvas;
  if (!canvas) {
    throw new Error('The chart is not drawn yet.');
  }
  const scale = devicePixelRatio;
  const shown = chart.lines.filter(line => line.isShown);
  const header = (24 + 16 * shown.length) * scale;
  const picture = document.createElement('canvas');
  picture.width = canvas.width;
  picture.height = canvas.height + header;
  const context = picture.getContext('2d');
  if (!context) {
    throw new Error('This browser gives no canvas to draw on.');
  }
  const { background, text, lines, font } = chart.theme;
  context.fillStyle = background;
  context.fillRect(0, 0, picture.width, picture.height);
  context.scale(scale, scale);
  context.fillStyle = text;
  context.font = `bold ${font}`;
  context.fillText(title, 8, 16);
  context.font = font;
  shown.forEach((line, index) => {
    const y = 32 + 16 * index;
    context.fillStyle = lines[line.colour % lines.length];
    context.fillRect(8, y - 5, 12, 3);
    context.fillStyle = text;
    context.fillText(line.label, 26, y);
  });
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(canvas, 0, header);
  return new Promise((resolve, reject) =>
    picture.toBlob(blob =>
      blob ? resolve(blob) : reject(new Error('The picture is empty.'))
    )
  );
}

/** Let the browser save `content` as a file. */
export function save(content: Blob | string, name: string): void {
  const blob =
    typeof content === 'string'
      ? new Blob([content], { type: 'text/csv;charset=utf-8' })
      : content;
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name.replace(/[^\p{L}\p{N}._-]+/gu, '-').slice(0, 150);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
