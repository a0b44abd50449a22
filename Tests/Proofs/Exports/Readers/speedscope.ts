// Has speedscope's own importers read NAME.trace.json and NAME.folded, and prints the sum that each finds, in nanoseconds:
// bun run speedscope.ts SOURCE NAME. SOURCE is a copy of github.com/jlfwong/speedscope's src, with stand-ins for two
// packages that only other formats need.
import {readFileSync} from 'fs'

const [, , source, name] = process.argv
const {importFromBGFlameGraph} = await import(`${source}/import/bg-flamegraph`)
const {importTraceEvents} = await import(`${source}/import/trace-event`)

const complaints: string[] = []
console.warn = (...words: unknown[]) => complaints.push(words.join(' '))
const text = (ending: string) => readFileSync(`${name}.${ending}`, 'utf8')

// Of several threads each is as long as it was there: the longest is the stall.
const traced = importTraceEvents(JSON.parse(text('trace.json'))).profiles
console.log(`trace ${Math.max(...traced.map((profile: any) => profile.getTotalWeight())) * 1000}`)

const lines = text('folded').split('\n')
console.log(`folded ${importFromBGFlameGraph({splitLines: () => lines} as any)!.getTotalWeight() * 1e6}`)

// What does not fit together is only warned of.
const grave = complaints.filter((complaint) => !complaint.includes('instead.') || complaint.includes('Doing nothing'))
if (grave.length > 0) throw new Error(grave.join('\n'))
