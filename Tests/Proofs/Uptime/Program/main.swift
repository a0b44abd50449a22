// A year of a service on the simulated clock. Compares memory, descriptors, threads and reports early and late.
//
//   $ uptime-process                     10,000 stalls
//   $ uptime-process --stalls=100000     more stalls in the year
//   $ uptime-process DIRECTORY           with a directory for stall files, which is filled up and emptied
//
// For each stall the service starts a hundred threads, runs a hundred tasks, and loads and unloads a library. Every
// hundredth stall comes with a change of the configuration, a step of the wall clock, a full or an emptied directory.

import Foundation
import Judges

var (stalls, directory) = (10_000, String?.none)
for word in CommandLine.arguments.dropFirst() {
  if word.hasPrefix("--stalls="), let number = Int(word.dropFirst(9)), number >= 1000 {
    stalls = number
  } else if !word.hasPrefix("-") {
    directory = word
  } else {
    print("usage: uptime-process [--stalls=COUNT] [DIRECTORY]; COUNT is at least 1000")
    exit(2)
  }
}
func complain(_ text: String) { FileHandle.standardError.write(Data("uptime-process: \(text)\n".utf8)) }

let figures = Figures(write: { print($0, terminator: "") }, complain: complain)
do {
  try Year(stalls: stalls, directory: directory).run(figures)
  exit(figures.allHold ? 0 : 1)
} catch {
  complain("\(error)")
  exit(1)
}
