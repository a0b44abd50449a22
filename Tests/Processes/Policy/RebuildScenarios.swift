import Culprit
import Glibc
import Programs
import Synchronization

/// Stalls in each function that `shop_work` of the given libraries selects by number. Prints each stall's signature,
/// source location and culprit.
@Sendable func stallInBuilds(_ arguments: [String]) throws {
  guard let functions = arguments.first.flatMap({ Int32($0) }) else { exit(2) }
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(20)))
  let reported = Atomic<Int>(0)
  watchdog.onStall { report in
    let function = report.culprit?.function
    let place = function?.location.map { "\($0.fileName):\($0.line)" } ?? "nowhere"
    say("stall=\(report.signature) \(place) \(function?.name ?? "nobody")")
    reported.add(1, ordering: .releasing)
  }
  var stalls = 0
  for path in arguments.dropFirst() {
    guard let library = dlopen(path, RTLD_NOW | RTLD_LOCAL), let symbol = dlsym(library, "shop_work") else {
      say("error=\(dlerror().map { String(cString: $0) } ?? path)")
      exit(1)
    }
    // SAFETY: the library was compiled from a source that defines it with this type.
    let work = unsafeBitCast(symbol, to: (@convention(c) (Int32, Double) -> Void).self)
    for number in 0..<functions {
      watchdog.withSection("work", threshold: .milliseconds(200)) { work(number, 0.6) }
      stalls += 1
      // Waits for each report, to keep the order.
      while reported.load(ordering: .acquiring) < stalls { usleep(10_000) }
    }
  }
  watchdog.stop(patience: .seconds(10))
}
