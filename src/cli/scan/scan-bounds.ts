/** The bounds of a scan for keys. */
export const scanBounds = {
  /** Bytes of a file that are in memory at once. */
  chunkBytes: 256 * 1024,
  /** Keys after which a scan ends: it has found enough to act on. */
  findingsMax: 10_000,
  /** Objects of a history whose commit is looked for: each look reads all commits. */
  objectsLocatedMax: 200,
  /** Characters of what git says that are kept. */
  gitWordsMax: 4_096,
  /** Characters of a line in which git names an object, or a path. */
  gitLineMax: 16_384,
} as const;
