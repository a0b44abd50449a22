import CulpritStallRecord
import Testing

@testable import CulpritBlame

@Suite struct InitializerTests {
  private var synthetic = Synthetic()
  private let waiting = ["c.start", "applyTax", "c.__pthread_once_slow", "c.syscall"]

  /// Returns the wait chains of thread 1, which waits in `functions`. The `others` are the stacks of threads 2 and up.
  private mutating func chains(_ functions: [String], _ others: [[String]], isWaiting: Bool = true) -> [StallReport
    .WaitChain]
  {
    var stall = synthetic.stall(Array(repeating: functions, count: 10))
    if isWaiting { for place in stall.samples.indices { stall.samples[place].activity = .inSystemCall(202) } }
    var all = AllThreads()
    for (place, other) in others.enumerated() {
      let seen = synthetic.stall([other]).samples[0]
      let thread = ObservedThread(id: Int32(place + 2), name: "thread \(place + 2)")
      let activity = ThreadActivity.inSystemCall(35)
      all.threads.append(
        ThreadSample(thread: thread, stack: seen.stack, outcome: .captured, cpuTime: nil, activity: activity)
      )
    }
    stall.others = all
    return synthetic.blame(stall, architecture: "x86_64").waitChains
  }

  @Test mutating func findsInitializingThread() throws {
    let loader = ["c.start", "loader", "c.__pthread_once_slow", "loadTaxRules", "c.read"]
    let bystander = ["c.start", "serve", "c.epoll_wait"]
    let chain = try #require(chains(waiting, [bystander, loader, waiting]).first)
    let link = try #require(chain.links.first)
    #expect(chain.links.count == 1 && chain.sampleCount == 10 && !chain.isDeadlock && chain.share > 0.99)
    #expect(link.kind == .initialization && link.holder.id == 3 && link.isLikely && !link.hasHolderEnded)
    #expect(link.culprit?.frame.function == "loadTaxRules" && link.stack?.functions.first?.function == "c.read")
  }

  @Test mutating func findsFunctionThatInitializesStaticVariable() throws {
    let waiter = ["c.start", "showCountry", "c.__cxa_guard_acquire", "c.syscall"]
    let first = ["c.start", "main", "showCountry", "CountryNames", "c.read"]
    let other = ["c.start", "loader", "c.__pthread_once_slow", "loadTaxRules"]
    let chain = try #require(chains(waiter, [waiter, other, first]).first)
    #expect(chain.links.map(\.holder.id) == [4] && chain.links[0].culprit?.frame.function == "CountryNames")
  }

  @Test mutating func reportsNoHolderWhenAmbiguous() {
    let one = ["c.start", "loader", "c.__pthread_once_slow", "loadTaxRules"]
    let other = ["c.start", "loader", "c.__pthread_once_slow", "loadPrices"]
    #expect(chains(waiting, [one, other]).isEmpty)
    #expect(chains(waiting, [["c.start", "serve"], waiting]).isEmpty)
    #expect(chains(["c.start", "applyTax", "c.read"], [one]).isEmpty)
    #expect(chains(["c.start", "applyTax", "c.__pthread_once_slow", "loadTaxRules"], [one]).isEmpty)
    #expect(chains(waiting, [one], isWaiting: false).isEmpty)
    #expect(chains(waiting, []).isEmpty)
  }
}
