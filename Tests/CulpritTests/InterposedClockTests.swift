import CCulpritLinux
import TestSupport
import Testing

@testable import Culprit

@Suite(.ownThread) struct InterposedClockTests {
  @TemporaryDirectory private var directory: String

  /// A preloaded library shifts the clock by ten days, like libfaketime. Durations must stay correct.
  @Test(arguments: ["- 864000", "+ 864000"]) func ignoresInterposedClock(offset: String) throws {
    let source = """
      #define _GNU_SOURCE
      #include <sys/syscall.h>
      #include <time.h>
      #include <unistd.h>
      int clock_gettime(clockid_t clock, struct timespec *time) {
        int result = (int)syscall(SYS_clock_gettime, clock, time);
        time->tv_sec = time->tv_sec \(offset);
        return result;
      }
      """
    let library = try compiledLibrary(source, name: "clock", in: directory)
    let child = try ChildProcess(
      ChildProcess.built("blackbox-process"),
      ["\(directory)/stalls", "recover"],
      environment: ["LD_PRELOAD": library, "SWIFT_BACKTRACE": "enable=no"]
    )
    #expect(child.hasExited && child.status == 0, "\(child)")
    let file = try read(try #require(stallFiles(in: "\(directory)/stalls").first))
    let stall = try #require(file.recording.stalls.first)
    #expect(stall.hasEnded && stall.duration >= .milliseconds(500) && stall.gap < .seconds(86_400), "\(stall)")
  }

  @Test func clampsExtremeTimes() {
    #expect(clinux_clock_nanoseconds(timespec(tv_sec: -1, tv_nsec: 5)) == 0)
    #expect(clinux_clock_nanoseconds(timespec(tv_sec: 2, tv_nsec: 5)) == 2_000_000_005)
    #expect(clinux_clock_nanoseconds(timespec(tv_sec: .max, tv_nsec: 5)) == UInt64(Int64.max))
    #expect(clinux_clock_between_ns(7, 5) == 0 && clinux_clock_between_ns(5, 7) == 2)
  }

  @Test func sumsSaturate() {
    var use = ThreadUse()
    use.cpuNanoseconds = .max - 1
    use.wakeups = .max
    use += use
    #expect(use.cpuNanoseconds == .max && use.wakeups == .max)
    #expect((-5).saturatingDifference(Int.max) == .min && Int64.min.saturatingSum(-1) == .min)
    #expect(UInt64(3).saturatingDifference(5) == 0 && UInt64(3).saturatingSum(5) == 8)
  }

  /// A clock reading before the last one must record no gap.
  @Test func clockSetBackCausesNoGap() {
    let tick = WorkItemTracker.Tick(now: 5, last: 1_000_000, allowed: 250)
    #expect(tick.elapsed == 0 && tick.charged == 0)
    #expect(WorkItemTracker.Tick(now: 1_000_000, last: 5, allowed: 250).charged == 250)
  }

  @Test func describesExtremeCPUTimes() {
    let time = Watchdog.CPUTime(
      elapsed: 1,
      user: .max,
      system: .max,
      machineElapsed: 0,
      machineUser: .max,
      machineSystem: .max,
      thread: .max,
      cpuCount: 0
    )
    #expect(time.description.hasSuffix("on 0 CPUs"))
  }
}
