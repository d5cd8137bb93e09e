import uPlot from 'uplot';
import { IMark } from '../../model/decimation';
import { IChartTheme } from './theme';

/** Half the width of a mark in CSS pixels. */
const SIZE = 4;

/**
 * Mark the numbers that aren't finite at the edge of the plot: NaN as a cross at the bottom, infinity as a
 * triangle at the end of the axis where it lies.
 */
export function drawMarks(
  plot: uPlot,
  marks: IMark[],
  theme: IChartTheme
): void {
  const { ctx, bbox } = plot;
  const size = SIZE * devicePixelRatio;
  const drawn = new Set<string>();
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = theme.warning;
  ctx.lineWidth = 1.5 * devicePixelRatio;
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(mark.x, 'x', true));
    const isTop = mark.value === Infinity;
    const place = `${Math.round(x / size)} ${mark.value}`;
    if (x >= bbox.left && x <= bbox.left + bbox.width && !drawn.has(place)) {
      drawn.add(place);
      const y = isTop
        ? bbox.top + size
        : bbox.top + bbox.height - (isNaN(mark.value) ? 2 * size : size);
      drawMark(ctx, x, y, size, mark.value);
    }
  }
  ctx.restore();
}

function drawMark(
  ctx: CanvasRenderingContext2D,
  x: number,
  y: number,
  size: number,
  value: number
): void {
  ctx.beginPath();
  if (isNaN(value)) {
    ctx.moveTo(x - size, y - size);
    ctx.lineTo(x + size, y + size);
    ctx.moveTo(x - size, y + size);
    ctx.lineTo(x + size, y - size);
    ctx.stroke();
  } else {
    const tip = value > 0 ? -size : size;
    ctx.moveTo(x, y + tip);
    ctx.lineTo(x - size, y - tip);
    ctx.lineTo(x + size, y - tip);
    ctx.fill();
  }
}
