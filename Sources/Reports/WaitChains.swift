import CulpritBlame
import CulpritStallRecord

extension StallReport.WaitChain {
  /// Whether this is a deadlock in which the kernel can refuse a wait (EDEADLK) and the thread repeats it.
  var canBeRefused: Bool { isDeadlock && links.contains { $0.kind == .initialization } }
}

package enum WaitChainText {
  static func heading(_ chain: StallReport.WaitChain) -> String {
    let time =
      "\(Formatting.duration(chain.time)), \(Formatting.percent(chain.share)) of the stall "
      + "(\(Formatting.count(chain.sampleCount, "sample")))"
    guard let first = chain.links.first else { return time }
    let threads = Set(chain.links.map(\.holder.id)).count
    if chain.isDeadlock, threads > 1 { return "\(threads) threads wait for each other, \(time)" }
    return "waiting for \(object(first)), \(time)"
  }

  static func lines(_ chain: StallReport.WaitChain, of thread: StallReport.Thread) -> [String] {
    chain.links.enumerated()
      .map { number, link in
        let doing = doing(link, isRefused: chain.canBeRefused)
        var text = (link.isLikely ? "likely " : "") + holder(number, chain, thread)
        if let next = waitsFor(number, chain) { text += ", itself waiting for \(next)" }
        return doing.isEmpty ? text : "\(text), \(doing)"
      }
      + (chain.isCycle && !chain.isDeadlock
        ? ["a deadlock, unless a wait ends by itself, or another thread lets go of what is waited for"] : [])
  }

  private static func waitsFor(_ number: Int, _ chain: StallReport.WaitChain) -> String? {
    let links = chain.links
    guard links.count > 1 else { return nil }
    if number + 1 < links.count {
      let next = links[number + 1]
      return noun(next) != noun(links[number])
        ? object(next) : next.kind == .threadEnd ? "the end of another thread" : "another \(noun(next))"
    }
    guard chain.isCycle else { return nil }
    // A cycle leads to a holder described above, or to the stalled work, which waits for the first object.
    let known = links.dropLast().firstIndex { $0.holder.id == links[number].holder.id }.map { $0 + 1 } ?? 0
    if known == number { return "it, too" }
    let alike = links.indices.filter { noun(links[$0]) == noun(links[known]) }
    guard alike.count > 1, let place = alike.firstIndex(of: known) else { return "the \(noun(links[known])) above" }
    return "the \(ordinals[min(place, ordinals.count - 1)]) \(noun(links[known]))"
  }

  private static let ordinals = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "last"]

  static func rest(_ chains: [StallReport.WaitChain], shown: Int) -> String {
    let rest = chains.dropFirst(shown)
    let share = rest.reduce(0) { $0 + $1.share }
    return rest.isEmpty
      ? "" : "and \(Formatting.count(rest.count, "other holder")), \(Formatting.percent(share)) of the stall in all"
  }

  static func headline(_ chains: [StallReport.WaitChain], of thread: StallReport.Thread) -> String? {
    guard let chain = chains.first, chain.share >= 0.5, let last = chain.links.last else { return nil }
    let other = chain.links.first { $0.holder.id != thread.id }
    if chain.isDeadlock { return "in a deadlock with \(other.map { name($0, beside: thread) } ?? "itself")" }
    let holder = chain.isCycle ? other ?? last : last
    let function = holder.culprit.map { " in \($0.function.displayName)" } ?? ""
    return (chain.links.contains(where: \.isLikely) ? "likely " : "")
      + "waiting for \(name(holder, beside: thread))\(function)"
  }

  package static func holder(_ chains: [StallReport.WaitChain], of thread: StallReport.Thread) -> String? {
    guard let chain = chains.first, !chain.isCycle, !chain.isDeadlock, let owner = chain.links.last?.culprit else {
      return headline(chains, of: thread)
    }
    guard chain.share >= 0.5 else { return nil }
    return (chain.links.contains(where: \.isLikely) ? "likely " : "") + "held by \(owner.function.displayName)"
  }

  /// Returns the name of the holding thread. It can equal the name of `stalled`, because threads inherit names.
  package static func name(_ link: StallReport.WaitLink, beside stalled: StallReport.Thread) -> String {
    let holder = link.holder
    guard !holder.name.isEmpty else { return "thread \(holder.id)" }
    let name = "\"\(abridged(holder.name))\""
    let isNamesake = holder.name == stalled.name && holder.id != stalled.id
    return isNamesake ? "another thread called \(name) (\(holder.id))" : "thread \(holder.id) \(name)"
  }

  private static func holder(
    _ number: Int,
    _ chain: StallReport.WaitChain,
    _ stalled: StallReport.Thread
  ) -> String {
    let link = chain.links[number]
    let thread = name(link, beside: stalled)
    // The heading or the previous line names the object.
    let isNamed = number > 0 || !chain.isDeadlock || chain.links.count == 1
    let object = isNamed ? "\(number > 0 ? "that" : "the") \(noun(link))" : object(link)
    if chain.isCycle, chain.links.count == 1 { return "\(thread) had \(object) already" }
    if link.kind == .threadEnd { return "\(thread) had not ended" }
    if link.hasHolderEnded { return "\(thread) held \(object) and has ended: no thread can unlock it" }
    if link.kind == .initialization { return "\(thread) was at \(object)" }
    return "\(thread) \(link.kind == .queue ? "had" : "held") \(object)"
  }

  private static func object(_ link: StallReport.WaitLink) -> String {
    let article = link.kind == .threadEnd ? "the" : link.kind == .initialization ? "an" : "a"
    return "\(article) \(noun(link))"
  }

  package static func noun(_ link: StallReport.WaitLink) -> String { noun(link.kind) }

  static func noun(_ kind: StallReport.WaitLink.Kind) -> String {
    switch kind {
    case .lock: "lock"
    case .mutex: "mutex"
    case .readWriteLock: "read-write lock"
    case .threadEnd: "end of a thread"
    case .queue: "dispatch queue"
    case .stream: "stream (stdio)"
    case .initialization: "initialization"
    default: "thing of the kind \(abridged(kind.rawValue))"
    }
  }

  private static func doing(_ link: StallReport.WaitLink, isRefused: Bool) -> String {
    if let culprit = link.culprit {
      let function = culprit.function
      let how = isRefused ? ActivityText.ofRefused(culprit) : ActivityText.of(culprit)
      if link.kind == .initialization {
        return "seen in \(Formatting.placed(function))"
      }
      return
        "\(Formatting.percent(culprit.share)) of that time in \(Formatting.placed(function))"
        + (how.isEmpty ? "" : ": \(how)")
    }
    guard !link.hasHolderEnded else { return "" }
    guard let innermost = link.stack?.functions.first else { return "and was not sampled" }
    return "last seen in \(Formatting.placed(innermost))"
  }
}
