import CulpritStallRecord
import Foundation
import SampleRecordings
import Testing

@testable import CulpritBlame
@testable import CulpritReports

func waitLink(
  _ kind: StallReport.WaitLink.Kind,
  of id: Int32,
  hasEnded: Bool = false,
  culprit: StallReport.Finding? = nil
) -> StallReport.WaitLink {
  StallReport.WaitLink(
    kind: kind,
    address: 1,
    holder: StallReport.Thread(id: id, name: ""),
    hasHolderEnded: hasEnded,
    isLikely: false,
    culprit: culprit,
    stack: StallReport.Stack(functions: culprit.map { [$0.function] } ?? [], missingCallers: nil)
  )
}

/// A chain of `links` in all ten samples of 5 s.
func waitChain(_ links: [StallReport.WaitLink], isCycle: Bool, isDeadlock: Bool) -> StallReport.WaitChain {
  StallReport.WaitChain(
    links: links,
    share: 1,
    seconds: Seconds(.seconds(5)),
    sampleCount: 10,
    isCycle: isCycle,
    isDeadlock: isDeadlock
  )
}

@Suite struct WaitChainTextTests {
  /// A name with a terminal escape and a forged line.
  private static let hostile = "evil\u{1b}[2J\nCULPRIT   innocent()"
  private static let long = String(repeating: "worker-", count: 40)

  /// A lock owner, with its functions, innermost first, and the lock that it waits for.
  private struct Holder {
    var id: Int32
    var name: String
    var functions: [String]
    var lock: HeldLock?
  }

  private static func lock(_ kind: HeldLock.Kind, _ address: UInt64, of holder: Int32, for waiter: Int32) -> HeldLock {
    HeldLock(kind: kind, address: address, holderID: holder, waiterID: waiter)
  }

  /// The report of a stall in which thread 1 waits for `lock`, with the owners `holders`.
  private static func report(waitingFor lock: HeldLock, _ holders: [Holder]) -> StallReport {
    var stacks: [Stack] = []
    var names: [UInt64: String] = [:]
    func sample(_ number: Int, _ functions: [String], _ lock: HeldLock?) -> Sample {
      let frames = functions.map { name -> StackFrame in
        let address = UInt64(name.utf8.reduce(7) { ($0 &* 31 &+ Int($1)) & 0xffff }) << 4
        names[address] = name
        return .programCounter(RuntimeAddress(address))
      }
      stacks.append(Stack(frames: frames, end: .outermost))
      let age = Duration.milliseconds(250 + 500 * number)
      guard let lock else { return Sample(age, stacks.count - 1, .running, used: .milliseconds(490 * number)) }
      return Sample(age, stacks.count - 1, .inSystemCall(202), used: .milliseconds(5), lock: lock)
    }
    let samples = (0..<10).map { sample($0, ["pthread_mutex_lock", "Shop.order()", "main"], lock) }
    var holderSamples: [HolderSample] = []
    for holder in holders {
      let held = ([lock] + holders.compactMap(\.lock)).first { $0.holderID == holder.id }
      let thread = ObservedThread(id: holder.id, name: holder.name)
      for number in 0..<10 {
        let sample = sample(number, holder.functions, holder.lock)
        holderSamples.append(HolderSample(address: held?.address ?? 0, thread: thread, isHeld: true, sample: sample))
      }
    }
    var stall = Stall(
      "http",
      thread: (1, "main"),
      began: 1_795_170_231_204_000_000,
      samples: samples,
      duration: .seconds(5),
      hasEnded: false
    )
    stall.holders = holderSamples
    let builder = ReportBuilder(Recording(process: exampleProcess, stacks: stacks, stalls: [stall])) { frame in
      let name = names[frame.address.value] ?? "?"
      let isOwn = name.contains(".") || name == "main"
      guard isOwn else { return [ResolvedFrame(name, raw: name, in: "/usr/lib/libc.so.6", at: frame.address.value)] }
      let place = SourceLocation(file: "/src/\(name.prefix { $0 != "." }).swift", line: 7)
      return [ResolvedFrame(name, raw: name, in: "/opt/shop/bin/shop", at: frame.address.value, place)]
    }
    return builder.report(of: stall)
  }

  private static let chain = report(
    waitingFor: lock(.mutex, 100, of: 2, for: 1),
    [
      Holder(
        id: 2,
        name: hostile,
        functions: ["_dispatch_sync_f_slow", "Store.save()"],
        lock: lock(.queue, 200, of: 3, for: 2)
      ),
      Holder(
        id: 3,
        name: long,
        functions: ["pthread_mutex_lock", "Disk.sync()"],
        lock: lock(.mutex, 300, of: 4, for: 3)
      ),
      Holder(id: 4, name: "", functions: ["memcpy", "Journal.copy()"], lock: nil),
    ]
  )

  private static let deadlock = report(
    waitingFor: lock(.mutex, 100, of: 2, for: 1),
    [
      Holder(
        id: 2,
        name: hostile,
        functions: ["pthread_mutex_lock", "Basket.lock()"],
        lock: lock(.mutex, 200, of: 1, for: 2)
      )
    ]
  )

  @Test(arguments: [40, 80, 100, 120]) func printsWaitChains(width: Int) {
    let text = Self.chain.text(width: width)
    expectSnapshot(text, "chain-\(width)")
    #expect(text.contains("\nHOLDER    waiting for a mutex") && !text.contains("\nCULPRIT   innocent"))
  }

  @Test(arguments: [40, 80, 100, 120]) func printsDeadlocks(width: Int) {
    let text = Self.deadlock.text(width: width)
    expectSnapshot(text, "deadlock-\(width)")
    #expect(text.contains("\nDEADLOCK  2 threads wait for each other") && !text.contains("\nCULPRIT   innocent"))
  }

  /// A new thread inherits the name of the thread that starts it.
  @Test func distinguishesNamesakesOfStalledThread() {
    let holder = Holder(id: 2, name: "main", functions: ["Index.update()"])
    let report = Self.report(waitingFor: Self.lock(.mutex, 100, of: 2, for: 1), [holder])
    let text = report.text(width: 120)
    #expect(text.contains("- another thread called \"main\" (2) held the mutex"))
    #expect(report.summary.contains("waiting for another thread called \"main\" (2) in Index.update()"))
    #expect(!text.contains("thread 2 \"main\"") && text.contains("thread 1 \"main\""))
  }

  /// libdispatch names its threads after its own queues.
  @Test func namesPoolThreads() {
    let holders = [
      Holder(
        id: 9,
        name: "oot.default-qos",
        functions: ["pthread_mutex_lock", "Basket.lock()"],
        lock: Self.lock(.mutex, 200, of: 7, for: 9)
      ),
      Holder(id: 7, name: "-qos.overcommit", functions: ["Index.update()"]),
    ]
    let text = Self.report(waitingFor: Self.lock(.mutex, 100, of: 9, for: 1), holders).text(width: 120)
    #expect(text.contains("thread 9 \"pool thread\" held the mutex"))
    #expect(text.contains("thread 7 \"pool thread\" held that mutex"))
    #expect(!text.contains("qos"))
  }

  private func lines(_ links: [StallReport.WaitLink], isCycle: Bool = false, isDeadlock: Bool = false) -> [String] {
    let chain = waitChain(links, isCycle: isCycle, isDeadlock: isDeadlock)
    return [WaitChainText.heading(chain)]
      + WaitChainText.lines(chain, of: StallReport.Thread(id: 1, name: "main")).map {
        $0.replacingOccurrences(of: ", and was not sampled", with: "")
      }
  }

  /// The text of a report with a deadlock of `links`, in which the stalled thread used CPU time.
  private func deadlocked(_ links: [StallReport.WaitLink]) throws -> String {
    var report = Self.deadlock
    report.culprit?.cpuUse = StallReport.CPUUse(share: 0.98, runnableShare: 0.01)
    report.culprit?.waiting = StallReport.Waiting(samples: 0, of: 10)
    let chain = try #require(report.waitChains.first)
    report.waitChains = [chain]
    report.waitChains[0].links = links.map { link in
      var link = link
      link.culprit = report.culprit
      return link
    }
    return report.text(width: 200)
  }

  @Test func matchesAdviceToCycle() throws {
    func next(_ links: [StallReport.WaitLink]) throws -> String {
      let text = try deadlocked(links)
      return String(text.split(separator: "\n").first { $0.hasPrefix("NEXT") } ?? "")
    }
    let order = "take these locks in one order"
    #expect(try next([waitLink(.mutex, of: 2), waitLink(.mutex, of: 1)]).contains(order))
    #expect(try next([waitLink(.mutex, of: 1)]).contains("do not take a lock that the thread holds already"))
    #expect(try next([waitLink(.queue, of: 1)]).contains("do not call sync on the queue that the thread runs on"))
    let own = "keep the initializer from using the value that it initializes"
    #expect(try next([waitLink(.initialization, of: 1)]).contains(own))
    let others = "keep each initializer from using a value whose initializer needs it in turn"
    #expect(try next([waitLink(.lock, of: 2), waitLink(.initialization, of: 1)]).contains(others))
  }

  /// The kernel refuses the wait that would close the cycle, and the thread retries it.
  @Test func treatsRefusedWaitsAsWaiting() throws {
    let text = try deadlocked([waitLink(.lock, of: 2), waitLink(.initialization, of: 1)])
    #expect(!text.contains("computing"), "\(text)")
    #expect(text.contains("waiting: it repeated a wait that the kernel refuses, on CPU 98 %"), "\(text)")
  }

  private let time = "5.00 s, 100 % of the stall (10 samples)"

  @Test(arguments: [
    (StallReport.WaitLink.Kind.lock, "a lock", "held the lock"), (.mutex, "a mutex", "held the mutex"),
    (.readWriteLock, "a read-write lock", "held the read-write lock"),
    (.queue, "a dispatch queue", "had the dispatch queue"), (.stream, "a stream (stdio)", "held the stream (stdio)"),
    (.threadEnd, "the end of a thread", "had not ended"),
    (.initialization, "an initialization", "was at the initialization"),
    (.init(rawValue: "new"), "a thing of the kind new", "held the thing of the kind new"),
  ]) func namesHeldObject(kind: StallReport.WaitLink.Kind, object: String, held: String) {
    #expect(lines([waitLink(kind, of: 2)]) == ["waiting for \(object), \(time)", "thread 2 \(held)"])
  }

  @Test func reportsSelfDeadlockAndExitedOwner() {
    #expect(
      lines([waitLink(.mutex, of: 1)], isCycle: true, isDeadlock: true)
        == ["waiting for a mutex, \(time)", "thread 1 had the mutex already"]
    )
    #expect(
      lines([waitLink(.mutex, of: 2, hasEnded: true)]).last
        == "thread 2 held the mutex and has ended: no thread can unlock it"
    )
  }

  @Test func describesCycles() {
    #expect(
      lines([waitLink(.mutex, of: 2), waitLink(.queue, of: 1)], isCycle: true, isDeadlock: true)
        == [
          "2 threads wait for each other, \(time)", "thread 2 held a mutex, itself waiting for a dispatch queue",
          "thread 1 had that dispatch queue, itself waiting for the mutex above",
        ]
    )
    #expect(
      lines([waitLink(.mutex, of: 2), waitLink(.mutex, of: 3), waitLink(.threadEnd, of: 1)], isCycle: true)
        == [
          "waiting for a mutex, \(time)", "thread 2 held the mutex, itself waiting for another mutex",
          "thread 3 held that mutex, itself waiting for the end of a thread",
          "thread 1 had not ended, itself waiting for the first mutex",
          "a deadlock, unless a wait ends by itself, or another thread lets go of what is waited for",
        ]
    )
    #expect(
      lines(
        [waitLink(.queue, of: 2), waitLink(.mutex, of: 3), waitLink(.mutex, of: 2)],
        isCycle: true,
        isDeadlock: true
      )
        == [
          "2 threads wait for each other, \(time)", "thread 2 had a dispatch queue, itself waiting for a mutex",
          "thread 3 held that mutex, itself waiting for another mutex",
          "thread 2 held that mutex, itself waiting for the first mutex",
        ]
    )
  }
}
