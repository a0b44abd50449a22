// A Hummingbird service under a watchdog, and its clients. The handlers' behaviour is known.
//
//   $ hummingbird-process one          one handler hangs, first in A, then in B
//   $ hummingbird-process all          as many handlers hang as there are threads
//   $ hummingbird-process child        a handler waits for a slow child task
//   $ hummingbird-process healthy 120  sends quick requests for this number of seconds
//
// `tools/prove hummingbird` builds it. CULPRIT in the manifest stands for the path of this package.
//
// The reports are printed, then facts as "name=value".

import Culprit
import Foundation
import Hummingbird
import Synchronization

let words = Array(CommandLine.arguments.dropFirst())
let threads = max(1, ProcessInfo.processInfo.activeProcessorCount)

var configuration = Watchdog.Configuration(threshold: .seconds(2))
(configuration.reporting.perMinute, configuration.reporting.perCulprit) = (.max, .max)
let watchdog = try Watchdog(configuration)
let reports = Atomic(0)
watchdog.onStall { report in
  reports.add(1, ordering: .relaxed)
  print(report.text(width: 120))
}
let watch = try watchdog.watchConcurrency()

let answers = Mutex<[String]>([])

let router = Router()
router.get("/hang") { _, _ in await serveSlowly() }
router.get("/child") { _, _ in await serveWithChild() }
router.get("/quick") { _, _ in "quick" }
let (running, run) = AsyncStream.makeStream(of: Int.self)
let application = Application(
  router: router,
  configuration: .init(address: .hostname("127.0.0.1", port: 0)),
  onServerRunning: { channel in run.yield(channel.localAddress?.port ?? 0) }
)
let server = Task { try await application.runService(gracefulShutdownSignals: []) }
let port = await first(of: running)

// Until the watchdog has found the pool's threads.
try await Task.sleep(for: .milliseconds(600))

switch words.first {
case "one": await ask("/hang", 1)
case "all": await ask("/hang", threads)
case "child": await ask("/child", 1)
case "healthy":
  let end = ContinuousClock.now + .seconds(Int(words.last ?? "") ?? 120)
  var asked = 0
  while ContinuousClock.now < end {
    await ask("/quick", 8)
    asked += 8
  }
  print("requests=\(asked)")
default:
  print("usage: hummingbird-process one|all|child|healthy SECONDS")
  exit(2)
}
// On a busy machine symbolizing takes time.
for _ in 0..<600 where words.first != "healthy" && reports.load(ordering: .relaxed) == 0 {
  try await Task.sleep(for: .milliseconds(100))
}
try await Task.sleep(for: .milliseconds(700))
print("reports=\(reports.load(ordering: .relaxed))")
if reports.load(ordering: .relaxed) == 0 {
  print("status=\(watchdog.status)\nanswers=\(answers.withLock { $0 })")
}
print("limitations=\(watchdog.status.limitations.map(\.code))")
await watchdog.stop()
exit(0)

/// Sends `count` concurrent requests for `path`, and waits for the responses.
func ask(_ path: String, _ count: Int) async {
  let port = port
  await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
    let left = Left(count)
    for _ in 0..<count {
      Thread.detachNewThread {
        let answer = request(path, port)
        answers.withLock { $0 = $0.suffix(7) + [answer] }
        if left.isLast() { done.resume() }
      }
    }
  }
}

final class Left: Sendable {
  private let count: Atomic<Int>
  init(_ count: Int) { self.count = Atomic(count) }
  func isLast() -> Bool { count.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 }
}

/// Sends a request for `path` and reads the response to its end. Returns the status line and the time taken.
func request(_ path: String, _ port: Int) -> String {
  let began = ContinuousClock.now
  let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  defer { close(descriptor) }
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_port = UInt16(port).bigEndian
  address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
  let connected = withUnsafePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
    }
  }
  guard connected == 0 else { return "connect: \(String(cString: strerror(errno)))" }
  let text = "GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
  _ = text.withCString { write(descriptor, $0, text.utf8.count) }
  var bytes = [UInt8](repeating: 0, count: 4096)
  var answer: [UInt8] = []
  while true {
    let count = read(descriptor, &bytes, bytes.count)
    guard count > 0 else { break }
    answer += bytes.prefix(count)
  }
  return
    "\(String(decoding: answer.prefix { $0 != UInt8(ascii: "\r") }, as: UTF8.self)) after \(ContinuousClock.now - began)"
}

/// The slow route's handler.
@inline(never)
func serveSlowly() async -> String {
  let priced = await price()
  return "\(priced)"
}

@inline(never)
func price() async -> Int {
  fillTheCache()
  finishThePage()
  return 1
}

/// Part A, within the threshold.
@inline(never)
func fillTheCache() { usleep(1_880_000) }

/// Part B, in which the threshold passes.
@inline(never)
func finishThePage() { usleep(1_300_000) }

@inline(never)
func serveWithChild() async -> String {
  async let found = search()
  let count = await found
  return "\(count)"
}

@inline(never)
func search() async -> Int {
  await Task.yield()
  fillTheCache()
  finishThePage()
  return 2
}

func first(of ports: AsyncStream<Int>) async -> Int {
  for await port in ports { return port }
  return 0
}
