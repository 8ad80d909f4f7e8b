internal import ChaparCore

/// Returns `Did you mean …?` when a known name is near.
package func didYouMean(_ word: String, _ known: some Sequence<String>) -> String? {
    Suggestion.nearest(to: String(word.unicodeScalars.prefix(64)), among: known).map { "Did you mean \"\($0)\"?" }
}
