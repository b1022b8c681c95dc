/** Settings of topics and groups, as callers write them; `docs/reference/topic-settings.md` explains them. */

/** Durations are milliseconds or text such as "7d"; sizes are bytes or text such as "1MiB". */
export type Setting = number | string | boolean;

export interface TopicSettings {
  maxDeliveries?: Setting;
  visibilityMs?: Setting;
  nackBackoffMs?: Setting;
  nackBackoffMaxMs?: Setting;
  retentionMs?: Setting;
  retentionBytes?: Setting;
  retentionBytesHard?: Setting;
  retentionMessages?: Setting;
  delayMaxMs?: Setting;
  payloadBytesMax?: Setting;
  rateLimitPerMinute?: Setting;
  rateLimitBurst?: Setting;
  dedupWindowEntries?: Setting;
  dedupWindowMs?: Setting;
  holdsDeadLetters?: Setting;
  transactionTimeoutMs?: Setting;
}

/** "" returns to the topic's value. */
export interface GroupSettings {
  maxDeliveries?: Setting;
  visibilityMs?: Setting;
  nackBackoffMs?: Setting;
  nackBackoffMaxMs?: Setting;
  rateLimitPerMinute?: Setting;
  rateLimitBurst?: Setting;
  leaseMsMax?: Setting;
  lostMs?: Setting;
  deadLetters?: Setting;
  deadLetterTopic?: Setting;
  resultTtlMs?: Setting;
  ordered?: Setting;
  paused?: Setting;
  holdsRetention?: Setting;
  singleActive?: Setting;
  expiresAfterMs?: Setting;
}

/** As the protocol has them: `maxDeliveries: 5` is `max_deliveries` "5". The broker knows which there are. */
export function readSettings(settings: TopicSettings | GroupSettings): Record<string, string> {
  const pairs = Object.entries(settings).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    pairs.map(([name, value]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      String(typeof value === "boolean" ? Number(value) : value),
    ]),
  );
}
