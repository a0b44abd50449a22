import CCulpritLinux
import CCulpritProcess
import CulpritStallRecord
import Foundation
import SplitMix
import Testing

@testable import Culprit

@Suite struct PlainTextTests {
  private func text(capacity: Int = 200, _ body: (inout PlainText) -> Void) -> String {
    var text = PlainText(capacity: capacity)
    body(&text)
    // SAFETY: the text has `count` bytes.
    return String(decoding: UnsafeRawBufferPointer(start: text.start, count: text.count), as: UTF8.self)
  }

  @Test func formatsNumbers() {
    var random = SplitMix(1)
    let tens = sequence(first: UInt64(1)) { $0 < 10_000_000_000_000_000_000 ? $0 * 10 : nil }
    let edges = tens.flatMap { [$0 - 1, $0, $0 + 1] } + [.max]
    for number in edges + (0..<200).map({ _ in random.next() >> UInt64.random(in: 0...63, using: &random) }) {
      #expect(text { $0.append(number: number) } == "\(number)")
    }
  }

  @Test func roundsSeconds() {
    var random = SplitMix(2)
    let edges: [UInt64] = [
      0, 1, 49_999_999, 50_000_000, 949_999_999, 950_000_000, 999_999_999, 1_000_000_000, 1_049_999_999, 1_050_000_000,
      9_949_999_999, 9_950_000_000, 12_345_499_999, 12_345_500_000,
    ]
    for time in edges + (0..<200).map({ _ in random.next() >> UInt64.random(in: 0...63, using: &random) }) {
      #expect(text { $0.append(seconds: time) } == rounded(time, 1))
      #expect(text { $0.append(seconds: time, digits: 3) } == rounded(time, 3))
      #expect(text { $0.append(seconds: time, digits: 0) } == rounded(time, 0))
    }
  }

  /// Rounds by decimal arithmetic, as a reference.
  private func rounded(_ time: UInt64, _ digits: Int) -> String {
    var exact = Decimal(time) / 1_000_000_000
    var result = Decimal()
    NSDecimalRound(&result, &exact, digits, .plain)
    let parts = "\(result)".split(separator: ".")
    let fraction = parts.count > 1 ? String(parts[1]) : ""
    return digits == 0
      ? String(parts[0]) : parts[0] + "." + fraction + String(repeating: "0", count: digits - fraction.count)
  }

  @Test func truncatesAtCapacity() {
    #expect(text(capacity: 3) { $0.append("ab") } == "ab")
    #expect(text(capacity: 3) { $0.append("abc") } == "abc")
    #expect(text(capacity: 3) { $0.append("abcd") } == "abc")
    #expect(
      text(capacity: 3) { text in
        text.append("ab")
        text.append(number: 123)
      } == "ab1"
    )
    #expect(
      text(capacity: 9) { text in
        text.append("gone")
        text.clear()
        "abcdef".withCString { text.append($0, 4) }
      } == "abcd"
    )
  }

  @Test func keepsCharactersOfEveryLength() {
    for value: UInt32 in [0x20, 0x7e, 0xa1, 0x7ff, 0x800, 0xfff, 0x1000, 0xd7ff, 0xe000, 0xfffd, 0x10000, 0x10fffd] {
      guard let scalar = Unicode.Scalar(value) else { continue }
      let name = "a\(Character(scalar))b"
      #expect(
        text { text in
          name.withCString { text.append($0, name.utf8.count) }
          text.makePrintable(from: 0)
        } == name,
        "U+\(String(value, radix: 16))"
      )
    }
  }

  @Test func replacesInvalidUTF8() {
    let edges: [UInt8] = [0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff]
    for first: UInt8 in [
      0x80, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff,
    ] {
      for second in edges {
        for third in edges {
          for fourth in [0x41, 0x80, 0xbf, 0xc0] as [UInt8] {
            let bytes = [first, second, third, fourth]
            var text = PlainText(capacity: 8)
            for byte in bytes { text.append(CChar(bitPattern: byte)) }
            text.makePrintable(from: 0)
            // SAFETY: the text has `count` bytes.
            let found = Array(UnsafeRawBufferPointer(start: text.start, count: text.count))
            let (before, after) = (String(validating: bytes, as: UTF8.self), String(validating: found, as: UTF8.self))
            #expect(after != nil, "\(bytes)")
            if let before, before.unicodeScalars.allSatisfy({ isPrintable($0) }) {
              #expect(after == before, "\(bytes)")
            }
          }
        }
      }
    }
  }

  @Test func leavesPrefixUnchanged() {
    #expect(
      text { text in
        text.append("\u{1}\u{2}\u{3}")
        text.makePrintable(from: 2)
      } == "\u{1}\u{2}?"
    )
  }
}

@Suite struct StallCPUTimeTests {
  private func time(
    elapsed: UInt64 = 10_000_000_000,
    user: UInt64 = 3_000_000_000,
    system: UInt64 = 1_000_000_000,
    machineElapsed: UInt64 = 5_000_000_000,
    machineUser: UInt64 = 6_000_000_000,
    machineSystem: UInt64 = 2_000_000_000,
    thread: UInt64 = 2_500_000_000,
    cpuCount: Int = 2
  ) -> Watchdog.CPUTime {
    Watchdog.CPUTime(
      elapsed: elapsed,
      user: user,
      system: system,
      machineElapsed: machineElapsed,
      machineUser: machineUser,
      machineSystem: machineSystem,
      thread: thread,
      cpuCount: cpuCount
    )
  }

  @Test func computesSharesOfAllCPUs() {
    let found = time()
    #expect(found.processShare == 0.2 && found.machineShare == 0.8 && found.threadShare == 0.25)
    #expect(
      found.description
        == "elapsed total CPU time (seconds): 8.000 (user 6.000, system 2.000), 80 % CPU; elapsed application CPU time "
        + "(seconds): 4.000 (user 3.000, system 1.000), 20 % CPU; the thread's own: 2.500, 25 % of one; in 10.000 s, "
        + "on 2 CPUs"
    )
  }

  @Test func omitsUnavailableMachineTimes() {
    let found = time(machineUser: 0, machineSystem: 0)
    #expect(found.machineUser == nil && found.machineSystem == nil && found.machineShare == nil)
    #expect(found.description.hasPrefix("elapsed application CPU time (seconds): 4.000 "))
    for (user, system) in [(UInt64(1), UInt64(0)), (0, 1)] {
      let found = time(machineUser: user, machineSystem: system)
      #expect(found.machineUser == .nanoseconds(Int64(user)) && found.machineSystem == .nanoseconds(Int64(system)))
    }
  }

  @Test func describesSmallTimes() {
    let none = time(elapsed: 0, machineElapsed: 0)
    #expect(none.processShare == 0 && none.machineShare == 0 && none.threadShare == 0)
    let small = time(elapsed: 1_499_999, user: 499_999, system: 1, thread: 1_500_000).description
    #expect(
      small.contains("(user 0.000, system 0.000)") && small.contains("own: 0.002,") && small.contains("in 0.001 s")
    )
    #expect(small.contains("application CPU time (seconds): 0.001 "))
  }

  @Test func omitsMachineTimesMissingAtEitherEnd() {
    let times = (1...2).map { at in
      cprocess_cpu(taken_ns: at, user_ns: at, system_ns: 7, machine_user_ns: 100 * at, machine_system_ns: 10 * at)
    }
    let used = times[1].since(times[0])
    #expect(used.user_ns == 1 && used.system_ns == 0 && used.machine_user_ns == 100 && used.machine_system_ns == 10)
    var unreported = times[1]
    (unreported.machine_user_ns, unreported.machine_system_ns) = (0, 0)
    for used in [unreported.since(times[0]), times[1].since(unreported)] {
      #expect(used.machine_user_ns == 0 && used.machine_system_ns == 0)
    }
    #expect(times[0].since(times[1]).user_ns == 0)
    #expect(time(machineUser: .max - 5, machineSystem: 0).description.hasPrefix("elapsed total CPU time (seconds): "))
  }

  @Test func usesFiguresOfTerminationRequest() {
    var request = cprocess_termination_request()
    request.elapsed_ns = 4_000_000_000
    request.used.user_ns = 1_000_000_000
    request.used.system_ns = 500_000_000
    request.cpus = 2
    var found = Watchdog.CPUTime(request)
    #expect(found.elapsed == .seconds(4) && found.machineElapsed == .seconds(4) && found.cpuCount == 2)
    #expect(found.user == .seconds(1) && found.system == .milliseconds(500))
    #expect(found.machineUser == nil && found.thread == nil && found.threadShare == nil)
    request.used.machine_system_ns = 1
    request.thread_elapsed_ns = 2_000_000_000
    request.thread_ns = 1_000_000_000
    found = Watchdog.CPUTime(request)
    #expect(found.machineUser == .zero && found.machineSystem == .nanoseconds(1))
    #expect(found.thread == .seconds(1) && found.threadElapsed == .seconds(2) && found.threadShare == 0.5)
  }

  @Test func historyStartsAtPrecedingRecord() {
    var history = CPUHistory()
    let unknown = history.used(since: 0)
    #expect(unknown.user_ns == 0 && unknown.system_ns == 0 && unknown.taken_ns > 0)
    // More records than the history holds, each between two clock readings.
    var moments = [clinux_clock_ns()]
    for _ in 0..<CPUHistory.length + 20 {
      history.note()
      moments.append(clinux_clock_ns())
    }
    let first = moments.count - 1 - CPUHistory.length
    for index in moments.indices.dropFirst() {
      // The record before moment `index`, or the oldest in the history.
      let note = max(index, first + 1)
      let base = history.used(since: moments[index]).taken_ns
      #expect((moments[note - 1]...moments[note]).contains(base), "\(index)")
    }
    let begin = history.current()
    var value = 1.0
    while history.current().user_ns + history.current().system_ns < begin.user_ns + begin.system_ns + 20_000_000 {
      for _ in 0..<10_000 { value = value.squareRoot() + 1 }
    }
    let used = history.used(since: moments[moments.count - 1])
    #expect(used.user_ns + used.system_ns >= 20_000_000 && value > 0)
    #expect(used.user_ns + used.system_ns <= history.current().user_ns + history.current().system_ns)
    #expect(used.machine_user_ns + used.machine_system_ns < history.current().machine_user_ns)
  }
}
