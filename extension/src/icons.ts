import { LabIcon } from '@jupyterlab/ui-components';

/** A curve that falls, and the bars of two devices under it. */
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="16">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161">
    <path d="M3 3h2v16h16v2H3z"/>
    <path d="M6.5 5.2l1.4-1.4c2.2 6 4.6 8.4 12.6 9.2v2c-8.400-.6-12-3.600-14-9.800z"/>
    <path d="M12 4h3v4h-3zM17 6h3v4h-3z"/>
  </g>
</svg>`;

export const trainIcon = new LabIcon({ name: 'jtrain:train', svgstr: SVG });
