import Culprit
import CulpritStallRecord
import Glibc
import Programs
import SourceLoads
import Synchronization

/// Measures whether the stall of one loop delays the turns of another loop. Each line of standard input is a command:
///
///     stall [differently]   begins an endless turn of the loop "stuck"; `differently`: each sample has another stack
///     turn MILLISECONDS     makes short turns of the loop "requests": turns=COUNT
///     end                   ends the stuck turn. The handler prints
///                           reported=SOURCE DURATION SAMPLES LOST AGE-OF-THE-LAST CULPRIT
///     status                problems=COUNT SENTENCE|SENTENCE…
///     stop                  stops the watchdog: stopped=true
///     die                   dies of SIGSYS, for which Swift prints no backtrace
///     exit                  exits, as at the end of the input
@Sendable func measureLatency(_ watchdog: Watchdog) throws {
  watchdog.onStall { report in
    let stall = report.raw.stall
    let last = stall.samples.last?.age ?? .zero
    say(
      "reported=\(stall.source.name) \(stall.duration.wholeNanoseconds) \(stall.samples.count) \(stall.lostSamples) "
        + "\(last.wholeNanoseconds) \(report.culprit?.function.name ?? "nobody")"
    )
  }
  let stuck = try watchdog.watchLoop(named: "stuck")
  // High, because short turns can exceed the usual threshold on a busy machine.
  let requests = try watchdog.watchLoop(named: "requests", threshold: .seconds(60))
  let thread = ClosureLoop()
  say("ready=\(getpid())")
  while let line = readLine() {
    let words = line.split(separator: " ")
    switch words.first {
    case "stall":
      isStuck.store(true, ordering: .releasing)
      let isVaried = words.count > 1
      thread.execute {
        stuck.withTurn {
          say("stalled=\(now())")
          if isVaried { holdUpDifferently() } else { holdUp { !isStuck.load(ordering: .acquiring) } }
        }
      }
    case "turn": turn(requests, watchdog, milliseconds: words.last.flatMap { UInt64($0) } ?? 0)
    case "end": isStuck.store(false, ordering: .releasing)
    case "status":
      let problems = watchdog.status.problems
      say("problems=\(problems.count) \(problems.joined(separator: "|"))")
    case "stop":
      if let seconds = words.dropFirst().first.flatMap({ Int($0) }) {
        say("stopped=\(watchdog.stop(patience: .seconds(seconds)))")
      } else {
        watchdog.stop(patience: .seconds(10))
        say("stopped=true")
      }
    case "die": raise(SIGSYS)
    default: exit(0)
    }
  }
  exit(0)
}

private let isStuck = Atomic<Bool>(false)

private func turn(_ loop: WatchedLoop, _ watchdog: Watchdog, milliseconds: UInt64) {
  var count = 0
  let end = now() + milliseconds * 1_000_000
  while now() < end {
    loop.withTurn(label: "request \(count)") { watchdog.withSection("query", threshold: .seconds(60)) { answer() } }
    count += 1
  }
  say("turns=\(count)")
}

@inline(never)
private func answer() {
  var bytes = [UInt8](repeating: 7, count: 4096)
  for index in bytes.indices.dropFirst() { bytes[index] = bytes[index - 1] &* 31 &+ UInt8(truncatingIfNeeded: index) }
  answers.store(Int(bytes.last ?? 0), ordering: .relaxed)
}

private let answers = Atomic<Int>(0)
private let steps = Atomic<Int>(0)

/// Blocks the calling thread, with another stack in each sample.
private func holdUpDifferently() {
  var way = 0
  while isStuck.load(ordering: .acquiring) {
    way += 1
    goLeft(way, depth: 24)
  }
}

/// Recurses. The bits of `way` choose the function of each level. `goLeft` and `goRight` differ, because an optimizer
/// merges equal functions.
@inline(never)
private func goLeft(_ way: Int, depth: Int) {
  if depth == 0 {
    usleep(2000)
  } else if way & 1 == 0 {
    goLeft(way >> 1, depth: depth - 1)
  } else {
    goRight(way >> 1, depth: depth - 1)
  }
  steps.add(1, ordering: .relaxed)
}

@inline(never)
private func goRight(_ way: Int, depth: Int) {
  guard depth > 0 else {
    usleep(1000)
    usleep(1000)
    return steps.store(way, ordering: .releasing)
  }
  if way & 1 == 0 { goLeft(way >> 1, depth: depth - 1) } else { goRight(way >> 1, depth: depth - 1) }
  steps.bitwiseXor(depth, ordering: .relaxed)
}

private func now() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
