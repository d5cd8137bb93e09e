import { TranslationBundle } from '@jupyterlab/translation';
import { formatDuration } from '../model/numbers';

/** A run's state in the user's language. */
export function stateWord(trans: TranslationBundle, state: string): string {
  const words: { [state: string]: string } = {
    queued: trans.__('queued'),
    starting: trans.__('starting'),
    running: trans.__('running'),
    pausing: trans.__('pausing'),
    paused: trans.__('paused'),
    finished: trans.__('finished'),
    failed: trans.__('failed'),
    stopped: trans.__('stopped'),
    interrupted: trans.__('interrupted'),
    deleted: trans.__('deleted')
  };
  return words[state] ?? state;
}

/** How long ago something was, `seconds` before now, in a few words. */
export function ago(trans: TranslationBundle, seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (days) {
    return trans._n('%1 day ago', '%1 days ago', days);
  }
  if (hours) {
    return trans._n('%1 hour ago', '%1 hours ago', hours);
  }
  return minutes
    ? trans._n('%1 minute ago', '%1 minutes ago', minutes)
    : trans.__('just now');
}

/** A duration without fractions. */
export function took(seconds: number): string {
  return formatDuration(Math.max(0, Math.round(seconds)));
}
