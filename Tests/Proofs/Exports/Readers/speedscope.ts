// Reads NAME.trace.json and NAME.folded with speedscope's own importers, and prints the sum of each in nanoseconds:
// bun run speedscope.ts SOURCE NAME. SOURCE is a copy of github.com/jlfwong/speedscope's src, with stand-ins for two
// packages that only other formats need.
import {readFileSync} from 'fs'

const [, , source, name] = process.argv
const {importFromBGFlameGraph} = await import(`${source}/import/bg-flamegraph`)
const {importTraceEvents} = await import(`${source}/import/trace-event`)

const complaints: string[] = []
console.warn = (...words: unknown[]) => complaints.push(words.join(' '))
const text = (ending: string) => readFileSync(`${name}.${ending}`, 'utf8')

// Each thread has a profile. The longest profile is the stall.
const traced = importTraceEvents(JSON.parse(text('trace.json'))).profiles
console.log(`trace ${Math.max(...traced.map((profile: any) => profile.getTotalWeight())) * 1000}`)

const lines = text('folded').split('\n')
console.log(`folded ${importFromBGFlameGraph({splitLines: () => lines} as any)!.getTotalWeight() * 1e6}`)

// The importers only warn about inconsistent events.
const grave = complaints.filter((complaint) => !complaint.includes('instead.') || complaint.includes('Doing nothing'))
if (grave.length > 0) throw new Error(grave.join('\n'))
