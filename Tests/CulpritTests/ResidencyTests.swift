import CCulpritLinux
import CCulpritObserver
import Foundation
import TestSupport
import Testing

@testable import Culprit

/// What says that something is stuck must not wait for a disk: its code stays in memory.
@Suite struct ResidencyTests {
  /// The addresses of the functions of this program that `isMeant` picks by their mangled names.
  private func functions(_ isMeant: (Substring) -> Bool) throws -> [(name: String, address: UInt64)] {
    let path = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let symbols = try ChildProcess("/usr/bin/env", ["nm", "--defined-only", path]).output
    let maps = try #require(ProcessMap.readAll("/proc/self/maps"))
    let first = try #require(maps.split(separator: "\n").first { $0.hasSuffix(path) })
    let base = try #require(UInt64(first.prefix { $0 != "-" }, radix: 16))
    return symbols.split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ")
      guard fields.count == 3, fields[1] == "t" || fields[1] == "T", isMeant(fields[2]),
        let address = UInt64(fields[0], radix: 16)
      else { return nil }
      return (String(fields[2]), base + address)
    }
  }

  /// The parts of the address space that are locked: `lo` in their VmFlags (proc_pid_smaps(5)).
  private func lockedRanges() throws -> [Range<UInt64>] {
    var found: [Range<UInt64>] = []
    var range: Range<UInt64>?
    for line in try #require(ProcessMap.readAll("/proc/self/smaps")).split(separator: "\n") {
      let head = line.prefix { $0 != " " }.split(separator: "-").compactMap { UInt64($0, radix: 16) }
      if head.count == 2 { range = head[0]..<head[1] }
      if line.hasPrefix("VmFlags:"), line.split(separator: " ").contains("lo"), let range { found.append(range) }
    }
    return found
  }

  @Test(.usesObserver, .enabled(if: getuid() == 0, "the limit of locked memory is no limit for root"))
  func theCodeThatMustRunIsLocked() throws {
    let watchdog = try Watchdog(Watchdog.Configuration())
    defer { watchdog.stop() }
    let locked = try lockedRanges()
    let types = [
      "7MonitorV", "15WorkItemTrackerV", "17SamplerSupervisorV", "16EscalationThreadV", "9PlainTextV", "10CPUHistoryV",
    ]
    // What destroys a value (WOh) is shared by the files that do, and runs when all is over.
    let swift = try functions { name in
      types.contains { name.hasPrefix("$s7Culprit\($0)") } && !name.hasSuffix("WOh")
    }
    let names = [
      "observer_ring_write", "observer_stall_set", "observer_work_follow", "observer_slot_read", "on_signal",
      "clinux_descriptor_is_ours", "clinux_descriptor_is_same", "identify_at", "clinux_write", "clinux_mask_of_thread",
      "clinux_memory_read_some", "copy_through_window", "clinux_task_starved_ns", "cprocess_datagram_send",
    ]
    let c = try functions { names.contains(String($0)) }
    #expect(swift.count > 50)
    #expect(c.count >= names.count)
    let loose = (swift + c).filter { function in !locked.contains { $0.contains(function.address) } }
    #expect(loose.isEmpty, "\(loose.count) of \(swift.count + c.count): \(loose.map(\.name).prefix(20))")
  }

  /// Nobody finds stacks in a core file, or in a child.
  @Test(.usesObserver) func copiesOfStacksAreKeptOut() throws {
    let watchdog = try Watchdog(Watchdog.Configuration())
    defer { watchdog.stop() }
    let memory = try #require(ProcessMap.readAll("/proc/self/smaps"))
    var isWindow = false
    var windows = 0
    for line in memory.split(separator: "\n") {
      if line.contains("-"), line.contains(":"), line.first?.isHexDigit == true {
        isWindow = line.contains("/memfd:culprit ")
      }
      guard isWindow, line.hasPrefix("VmFlags:") else { continue }
      windows += 1
      let flags = line.split(separator: " ")
      #expect(flags.contains("dd") && flags.contains("dc"), "\(line)")
    }
    #expect(windows == Int(CLINUX_WATCHERS_CONTEXT) + 1)
  }
}
