// Upgrades FILE to the current version with the Firefox Profiler's own code, and prints the sum of the samples in
// nanoseconds: bun run firefox.ts SOURCE FILE. SOURCE is a copy of github.com/firefox-devtools/profiler's src.
import {readFileSync} from 'fs'

const [, , source, file] = process.argv
const {attemptToUpgradeProcessedProfileThroughMutation} = await import(
  `${source}/profile-logic/processed-profile-versioning`
)
const profile = attemptToUpgradeProcessedProfileThroughMutation(JSON.parse(readFileSync(file, 'utf8')), {})
let sum = 0
for (const thread of profile.threads) {
  if (thread.samples.weightType !== 'tracing-ms') continue
  for (const weight of thread.samples.weight) sum += Math.round(weight * 1e6)
}
console.log(`firefox ${sum}`)
