import CCulpritLinux
import CulpritBlackBox
import FaultyDisks
import Glibc
import Judges

/// Kills services that hang while they hold a lock that the recorder might need, and judges the next launch's report.
struct LockSoak {
  /// The number of services killed for each lock.
  var kills: Int

  /// The names of the held locks, each with the culprit that the next launch must name.
  private static let scenarios = [
    ("malloc", "workload_hold"), ("arena", "workload_hold"), ("modules", "workload_hold"),
    ("initializer", "workload_hold"), ("stdio", "workload_hold"), ("metadata", "workload_hold"),
    ("pools", "workload_hold"),
  ]

  /// Runs the soak test and prints the number of named hangs for each lock.
  ///
  /// - Parameter figures: Receives the results.
  /// - Throws: ``ProofError`` or ``SpawnError`` when a service cannot be started.
  func run(_ figures: Figures) throws {
    // Without a thread cache, each allocation takes an arena's lock.
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1)
    let directory = "/tmp/culprit-locks-\(getpid())"
    defer { _ = try? Shell.run("rm -rf \(directory)") }
    _ = try Shell.run("mkdir -p \(directory)")
    let library = "\(directory)/libslow.so"
    let source = """
      #include <stdlib.h>
      __attribute__((constructor)) static void start(void) {
        ((void (*)(void))strtoul(getenv("WORKLOAD_HOLD"), NULL, 16))();
      }
      """
    _ = try Shell.run("printf '%s\\n' '\(source)' | gcc -shared -fPIC -x c -o \(library) -")
    var worst: Int64 = 0
    for (scenario, function) in Self.scenarios {
      var named = 0
      for number in 0..<kills {
        let service = try ServiceProcess(
          besideThis: "stalling-process",
          [scenario, "waiting", "\(directory)/runs", library, "for-ever"]
        )
        var began: UInt64?
        while began == nil, let fact = service.fact("turn") {
          let words = fact.split(separator: " ")
          if words.first == "main" { began = words.last.flatMap { UInt64($0) } }
        }
        guard let began else { throw ProofError("the service did not begin") }
        usleep(1_500_000 + .random(in: 0..<500_000))
        let lasted = Int64(clinux_clock_ns()) - Int64(began)
        kill(service.process, SIGKILL)
        service.end()
        let launch = try ServiceProcess(besideThis: "blackbox-process", ["\(directory)/runs", "report"])
        let text = launch.rest()
        launch.end()
        let judged = KillJudgement(text, process: service.process, culprit: function, source: "main")
        if let duration = judged.duration {
          named += 1
          worst = max(worst, abs(lasted - duration))
        } else {
          figures.note("\(scenario) \(number): \(text.split(separator: "\n").joined(separator: "; "))")
        }
        _ = try Shell.run("rm -rf \(directory)/runs")
      }
      figures.print("locks.\(scenario)", Double(named), "hangs", in: Double(kills)...Double(kills))
    }
    figures.print("locks.duration_error_max", Double(worst) / 1e6, "ms", in: 0...1000)
  }
}
