extension RandomAccessCollection where Index == Int {
  /// Returns the first index of the elements that satisfy `condition`. All later elements must satisfy it, too.
  @inlinable @inline(__always) package func partitioningIndex(where condition: (Element) -> Bool) -> Int {
    var low = startIndex
    var high = endIndex
    while low < high {
      let middle = low + (high - low) / 2
      if condition(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
