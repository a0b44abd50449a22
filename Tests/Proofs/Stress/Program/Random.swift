import SplitMix

extension SplitMix {
  mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self) }

  mutating func isOnce(in times: Int) -> Bool { number(1...times) == 1 }
}
