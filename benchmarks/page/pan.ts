/** The page of benchmarks/pan.py: a million points, moved in every frame, drawn by jtrain's chart and by uPlot alone. */
import uPlot from "uplot";
import { MetricSeries } from "../../extension/src/model/series";
import { MetricSource } from "../../extension/src/model/sources";
import { Viewport } from "../../extension/src/model/viewport";
import { Chart } from "../../extension/src/view/chart/chart";

interface IFrames {
  /** Milliseconds from each frame to the next. */
  gaps: number[];

  /** Milliseconds that the scripts of each frame took. */
  work: number[];
}

let spent = 0;
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (callback) =>
  ask((now) => {
    const start = performance.now();
    callback(now);
    spent += performance.now() - start;
  });

/** Call `move` in each of `count` animation frames. */
async function frames(count: number, move: (frame: number) => void) {
  const measured: IFrames = { gaps: [], work: [] };
  let last = 0;
  for (let frame = 0; frame <= count; frame++) {
    const now = await new Promise<number>((resolve) =>
      requestAnimationFrame((at) => {
        move(frame);
        resolve(at);
      }),
    );
    if (frame > 0) {
      measured.gaps.push(now - last);
      measured.work.push(spent);
    }
    last = now;
    spent = 0;
  }
  return measured;
}

function host(): HTMLElement {
  const element = document.createElement("div");
  element.style.cssText = "width: 800px; height: 300px";
  document.body.replaceChildren(element);
  return element;
}

/** A loss that falls and shivers. */
function values(count: number): Float64Array {
  return Float64Array.from(
    { length: count },
    (_, index) => 2 * Math.exp((-3 * index) / count) + 0.3 * Math.random(),
  );
}

/** Back and forth over the whole series, so that every part of it is shown. */
function place(frame: number, count: number, room: number): number {
  return (0.5 - 0.5 * Math.cos((2 * Math.PI * frame) / count)) * room;
}

async function panJtrain(points: number, part: number, count: number) {
  const series = new MetricSeries("loss");
  const steps = Float64Array.from({ length: points }, (_, index) => index);
  series.append(steps, steps, values(points));
  const viewport = new Viewport(() => series.extent("step"));
  const chart = new Chart(host(), { viewport, syncKey: "pan", height: 300 });
  chart.setLines([
    {
      key: "loss",
      label: "loss",
      source: new MetricSource(series, 0),
      colour: 0,
      isShown: true,
    },
  ]);
  const width = points * part;
  let drawn = 0;
  chart.drawn.connect(() => drawn++);
  await frames(10, () => viewport.zoom(0, width));
  const before = drawn;
  const measured = await frames(count, (frame) => {
    const at = place(frame, count, points - width - 1);
    viewport.zoom(at, at + width);
  });
  const draws = drawn - before;
  chart.dispose();
  return { ...measured, draws };
}

async function panPlain(points: number, part: number, count: number) {
  const steps = Float64Array.from({ length: points }, (_, index) => index);
  const data: uPlot.AlignedData = [steps, values(points)];
  const plot = new uPlot(
    {
      width: 800,
      height: 300,
      scales: { x: { time: false } },
      series: [{}, { stroke: "blue" }],
    },
    data,
    host(),
  );
  const width = points * part;
  const measured = await frames(count, (frame) => {
    const at = place(frame, count, points - width - 1);
    plot.batch(() => {
      plot.setData(data, false);
      plot.setScale("x", { min: at, max: at + width });
    });
  });
  plot.destroy();
  return { ...measured, draws: count };
}

Object.assign(window, { panJtrain, panPlain });
