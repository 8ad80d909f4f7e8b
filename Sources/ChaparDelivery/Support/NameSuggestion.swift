package import ChaparCore

/// Returns `Did you mean …?` when a known name is near.
///
/// For words near a former name in `renamed` the current name is suggested, whether or not `known` has the former name.
package func didYouMean(
    _ word: String,
    _ known: some Sequence<String>,
    renamed: [FormerName] = []
) -> String? {
    let names = known + renamed.map(\.former.description)
    return Suggestion.nearest(to: String(word.unicodeScalars.prefix(64)), among: names).map { nearest in
        let name = renamed.first { $0.former.description == nearest }?.present.description ?? nearest
        return "Did you mean \"\(name)\"?"
    }
}
