/** The folders for files that are kept between runs, and a check that no other user can write to a folder. */
import { lstatSync, realpathSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** The permission bits that let the group or all users write. */
export const writableByOthers = 0o022;
/** In a folder with this bit, such as /tmp, only an entry's owner can rename or remove it. */
const sticky = 0o1000;

/** The folders to try, the best one first. */
export function cacheFolders(env: Readonly<Record<string, string | undefined>> = process.env, platform: NodeJS.Platform = process.platform): string[] {
  const set = (name: string): string | undefined => (env[name] === "" ? undefined : env[name]);
  const found: string[] = [];
  const explicit = set("GATED_DELTA_CACHE");
  if (explicit !== undefined) found.push(explicit);
  const cache = set("XDG_CACHE_HOME");
  if (cache !== undefined) found.push(join(cache, "gated-delta"));
  try {
    const home = homedir();
    if (home !== "" && home !== "/") found.push(platform === "darwin" ? join(home, "Library", "Caches", "gated-delta") : join(home, ".cache", "gated-delta"));
  } catch {
    // no home folder
  }
  found.push(join(tmpdir(), `gated-delta-${userId()}`));
  return found;
}

export function userId(): number {
  return process.getuid?.() ?? 0;
}

/** Whether only this user (and root) can change a folder's contents or replace it or any folder above it. */
export function isOwnFolder(folder: string): boolean {
  const real = realpathSync(folder);
  const user = userId();
  const info = lstatSync(real);
  if (!info.isDirectory() || info.uid !== user || (info.mode & writableByOthers) !== 0) return false;
  for (let above = dirname(real); ; above = dirname(above)) {
    const { uid, mode } = lstatSync(above);
    if (uid !== user && uid !== 0) return false;
    if ((mode & writableByOthers) !== 0 && (mode & sticky) === 0) return false;
    if (above === dirname(above)) return true;
  }
}
