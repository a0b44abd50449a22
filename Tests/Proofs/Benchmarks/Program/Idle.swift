import FaultyDisks
import Glibc
import Judges
import Programs

/// Measures the cost of a watchdog in the idle example service, compared with a service without a watchdog.
func benchIdle(_ figures: Figures) throws {
  let watched = try Service("example-service")
  let unwatched = try Service("example-service-unwatched")
  // Start-up must be over.
  sleep(2)
  let before = watched.watchdogWakeups()
  let seconds: UInt32 = 20
  sleep(seconds)
  let wakeups = Double(watched.watchdogWakeups() - before) / Double(seconds)
  let (with, without) = (watched.residentMiB(), unwatched.residentMiB())
  figures.print("idle.wakeups", wakeups, "per second", in: 0.5...5)
  figures.print("idle.rss_watched", with, "MiB")
  figures.print("idle.rss_unwatched", without, "MiB")
  figures.print("idle.rss_delta", with - without, "MiB", in: -1...4)
  figures.print("idle.reserved_delta", watched.reservedMiB() - unwatched.reservedMiB(), "MiB", in: 0...64)
}

/// A running service to measure.
private final class Service {
  private let service: ServiceProcess
  private var id: pid_t { service.process }

  init(_ program: String) throws {
    service = try ServiceProcess(besideThis: program, ["--threshold=4000"])
    // The service prints "listening on …" once it is up.
    guard service.line() != nil else { throw ProofError("\(program) ended before it was up") }
  }

  deinit {
    kill(id, SIGTERM)
    service.end()
  }

  /// Resident memory, the kernel's exact count.
  func residentMiB() -> Double { Double(number("Rss:", in: readFile("/proc/\(id)/smaps_rollup"))) / 1024 }

  /// Reserved address space.
  func reservedMiB() -> Double { Double(number("VmSize:", in: readFile("/proc/\(id)/status"))) / 1024 }

  /// The number of voluntary context switches of the watchdog's threads so far: each is a wakeup.
  func watchdogWakeups() -> Int {
    threadDirectories(named: "culprit-", of: "\(id)")
      .reduce(0) { $0 + number("voluntary_ctxt_switches:", in: readFile("\($1)/status")) }
  }

  private func number(_ label: String, in text: String) -> Int {
    let line = text.split(separator: "\n").first { $0.hasPrefix(label) }
    return line.flatMap { Int($0.dropFirst(label.count).filter(\.isNumber)) } ?? 0
  }
}
