import CCulpritLinux
import CCulpritObserver
import Foundation
import TestSupport
import TestWorkloads
import Testing

@testable import Culprit

/// Code that reports stalls must not wait for a disk, so it stays in memory.
@Suite struct ResidencyTests {
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

  /// Returns the locked address ranges, marked `lo` in VmFlags (proc_pid_smaps(5)).
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

  @Test(.usesObserver, .ownThread, .needsUnlimitedLockedMemory)
  func locksRequiredCode() throws {
    let watchdog = try Watchdog(Watchdog.Configuration())
    defer { watchdog.stop() }
    let locked = try lockedRanges()
    let types = [
      "7MonitorV", "15WorkItemTrackerV", "17SamplerSupervisorV", "16EscalationThreadV", "9PlainTextV", "10CPUHistoryV",
    ]
    // Value witnesses for destruction (WOh) are shared between files and run only at the end.
    let swift = try functions { name in
      types.contains { name.hasPrefix("$s7Culprit\($0)") } && !name.hasSuffix("WOh")
    }
    let names = [
      "observer_ring_write", "observer_stall_set", "observer_work_follow", "observer_slot_read", "on_signal",
      "clinux_descriptor_is_ours", "clinux_descriptor_is_same", "identify_at", "clinux_write", "clinux_mask_of_thread",
      "clinux_memory_read_some", "copy_through_window", "clinux_task_starved_ns", "cprocess_datagram_send",
      "observer_swift_task_note", "task_memory_layout", "observer_copy_own_stack", "observer_deep_room_or",
      "clinux_process_is_kernels", "clinux_module_find", "observer_machine_registers", "cprocess_abort_expire",
    ]
    let c = try functions { names.contains(String($0)) }
    #expect(swift.count > 50)
    #expect(c.count >= names.count)
    let loose = (swift + c).filter { function in !locked.contains { $0.contains(function.address) } }
    #expect(loose.isEmpty, "\(loose.count) of \(swift.count + c.count): \(loose.map(\.name).prefix(20))")
  }

  @Test(.usesObserver, .ownThread, .needsUnlimitedLockedMemory)
  func locksRequiredMemory() throws {
    var configuration = Watchdog.Configuration()
    configuration.lifecycle.terminateAfter = .seconds(3600)
    let watchdog = try Watchdog(configuration)
    defer { watchdog.stop() }
    var places: [(what: String, address: UInt64)] = []
    for offset in stride(from: 0, to: residentTableBytes, by: 4096) {
      places.append(("slots", UInt64(UInt(bitPattern: observer_slot_table())) + UInt64(offset)))
      places.append(("stalls", UInt64(UInt(bitPattern: observer_stall_table())) + UInt64(offset)))
    }
    for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task") {
      let name = (try? String(contentsOfFile: "/proc/self/task/\(thread)/comm", encoding: .utf8)) ?? ""
      guard ["culprit-monitor\n", "culprit-escalat\n"].contains(name) else { continue }
      // The second to last number is the stack pointer of a waiting thread (proc_pid_syscall(5)).
      while true {
        let call = try String(contentsOfFile: "/proc/self/task/\(thread)/syscall", encoding: .utf8)
        if let stack = call.split(separator: " ").dropLast().last, let address = UInt64(stack.dropFirst(2), radix: 16) {
          places.append((name, address))
          break
        }
        usleep(1000)
      }
    }
    let locked = try lockedRanges()
    #expect(Set(places.map(\.what)).count == 4, "\(Set(places.map(\.what)))")
    let loose = places.filter { place in !locked.contains { $0.contains(place.address) } }
    #expect(loose.isEmpty, "\(loose.map { "\($0.what) at \(String($0.address, radix: 16))" })")
  }

  /// Counts the ranges with the mark (marked_stack.h), except those of the stack with `address`: a stack that an ended
  /// thread of the watchdog has used has several ranges, some still locked. Each must be excluded from core files and child processes.
  private func copiesOfMark(besides address: UInt64 = 0) throws -> Int {
    let memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
    try #require(memory >= 0)
    defer { close(memory) }
    var copies = 0
    var range: Range<UInt64> = 0..<0
    var isRead = false
    let marked = address..<address + 1 << 16
    for line in try #require(ProcessMap.readAll("/proc/self/smaps")).split(separator: "\n") {
      let fields = line.split(separator: " ", omittingEmptySubsequences: true)
      let ends = fields[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
      if ends.count == 2 {
        range = ends[0]..<ends[1]
        isRead = fields[1].hasPrefix("rw") && !range.overlaps(marked)
      }
      if fields[0] == "Rss:", fields[1] == "0" { isRead = false }
      guard fields[0] == "VmFlags:", isRead, isMarked(range, memory) else { continue }
      copies += 1
      #expect(fields.contains("dd") && fields.contains("dc"), "\(String(range.lowerBound, radix: 16)): \(line)")
    }
    return copies
  }

  private func isMarked(_ range: Range<UInt64>, _ memory: Int32) -> Bool {
    withUnsafeTemporaryAllocation(byteCount: 1 << 18, alignment: 8) { buffer in
      defer { buffer.initializeMemory(as: UInt8.self, repeating: 0) }
      var at = range.lowerBound
      while at < range.upperBound {
        // Clears earlier contents, where the search would find the mark again.
        buffer.initializeMemory(as: UInt8.self, repeating: 0)
        let length = Int(min(UInt64(buffer.count), range.upperBound - at))
        guard let bytes = buffer.baseAddress else { return false }
        // SAFETY: the buffer has `length` bytes.
        let count = pread(memory, bytes, length, off_t(at))
        guard count > 0 else { return false }
        if marked_stack_is_in(bytes.assumingMemoryBound(to: UInt8.self), count) { return true }
        at += UInt64(count)
      }
      return false
    }
  }

  /// Copies of stacks must be in no core file and no child, and be wiped.
  @Test(.usesObserver, .ownThread) func keepsStackCopiesPrivate() throws {
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200)))
    defer { watchdog.stop() }
    let (began, reported) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    watchdog.onStallBegan { _ in began.signal() }
    watchdog.onStall { _ in reported.signal() }
    let loop = try watchdog.watchLoop(named: "secret")
    var seen = 0
    for way in [MARKED_ASLEEP, MARKED_COMPUTING, MARKED_DEEP] {
      let started = marked_stack_start(
        way,
        { begins, context in
          // SAFETY: the loop outlives the thread, which ends below.
          let loop = Unmanaged<WatchedLoop>.fromOpaque(context.unsafelyUnwrapped).takeUnretainedValue()
          if begins { loop.begin() } else { loop.end() }
        },
        Unmanaged.passUnretained(loop).toOpaque()
      )
      let thread = try #require(started)
      began.wait()
      seen += try copiesOfMark(besides: marked_stack_address(thread))
      marked_stack_end(thread)
      reported.wait()
    }
    #expect(seen > 0)
    while try copiesOfMark() != 0 { usleep(10_000) }
  }

  @Test(.usesObserver) func excludesCopyWindowsFromCoreDumps() throws {
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
    // One window per sampler, one for signal handlers, one for captures.
    #expect(windows == Int(OBSERVER_SAMPLERS_MAX) + 2)
  }
}
