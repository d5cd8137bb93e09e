const UNITS = ['', 'k', 'M', 'G', 'T'];

/** A value of a metric with about five digits: `0.12346`, `1.2e-7`, `NaN`, `∞`. */
export function formatValue(value: number): string {
  if (!isFinite(value)) {
    return isNaN(value) ? 'NaN' : value > 0 ? '∞' : '−∞';
  }
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-4 || size >= 1e7)) {
    return value
      .toExponential(3)
      .replace(/\.?0*e\+?/, 'e')
      .replace(/-/g, '−');
  }
  const digits = Number.isInteger(value)
    ? 0
    : Math.max(0, 4 - Math.floor(Math.log10(size || 1)));
  const text = Number.isInteger(value)
    ? String(value)
    : value.toFixed(Math.min(digits, 7)).replace(/\.?0+$/, '');
  return text.replace('-', '−');
}

/** A count with its thousands marked off: `1 234 567`, with narrow spaces that don't break. */
export function formatCount(count: number): string {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** A number on an axis, short: `1.2k`, `3M`. */
export function formatShort(value: number): string {
  const size = Math.abs(value);
  if (size < 1000 || size >= 1e15) {
    return formatValue(value);
  }
  const unit = Math.floor(Math.log10(size) / 3);
  return `${formatValue(Number((value / 1000 ** unit).toPrecision(6)))}${UNITS[unit]}`;
}

/** A duration: `12 s`, `3:05`, `2:03:00`, `3 d 04:00`. */
export function formatDuration(seconds: number): string {
  const sign = seconds < 0 ? '−' : '';
  const size = Math.abs(seconds);
  if (size < 60) {
    return `${sign}${Number(size.toPrecision(3))} s`;
  }
  const whole = Math.round(size);
  const [days, hours] = [Math.floor(whole / 86400), Math.floor(whole / 3600)];
  const two = (part: number) => String(part % 60).padStart(2, '0');
  const minutes = Math.floor(whole / 60);
  if (days) {
    return `${sign}${days} d ${String(hours % 24).padStart(2, '0')}:${two(minutes)}`;
  }
  return hours
    ? `${sign}${hours}:${two(minutes)}:${two(whole)}`
    : `${sign}${minutes}:${two(whole)}`;
}

/** An amount of memory: `512 MiB`, `1.5 GiB`. */
export function formatBytes(bytes: number): string {
  if (!isFinite(bytes)) {
    return '–';
  }
  let unit = 0;
  let amount = bytes;
  while (Math.abs(amount) >= 1024 && unit < 5) {
    amount /= 1024;
    unit++;
  }
  const digits = unit === 0 || amount >= 100 ? 0 : 1;
  const text = amount.toFixed(digits).replace(/\.0$/, '');
  return `${text} ${['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][unit]}`;
}
