// A process that stalls in a given way under a watchdog. Tests run it as a child, because the stall can hold arbitrary
// locks and hang the process.
//
//   $ stalling-process malloc waiting /tmp/stalls
//   contended=true
//   STALL     event loop "main" was stuck for 1.50 s, limit 400 ms
//   …
//
// With "filtered" instead of a library, a seccomp filter refuses perf_event_open(2). With "for-ever" the stall lasts
// until the process is killed.
//
// Saves the stalls in the directory. Prints facts as `name=value`, then the reports.

import Culprit
import Glibc
import Programs
import TestWorkloads

beginProgram()
guard CommandLine.arguments.count >= 4, let scenario = Scenario(rawValue: CommandLine.arguments[1]) else {
  say("usage: stalling-process SCENARIO waiting|computing DIRECTORY [LIBRARY|filtered|for-ever]")
  exit(2)
}
workload_use_arenas(scenario == .arena ? 2 : 1)
if CommandLine.arguments.last == "filtered", !workload_refuse_call("perf_event_open") { exit(77) }
do {
  let stage = try Stage(directory: CommandLine.arguments[3], threshold: scenario.threshold, interval: scenario.interval)
  let holdTime: UInt64 = CommandLine.arguments.last == "for-ever" ? 60_000_000_000 : 1_500_000_000
  workload_prepare_hold(holdTime, CommandLine.arguments[2] == "computing")
  try scenario.run(on: stage, library: CommandLine.arguments.count > 4 ? CommandLine.arguments[4] : "")
  stage.close()
} catch {
  say("error=\(error)")
  exit(1)
}
