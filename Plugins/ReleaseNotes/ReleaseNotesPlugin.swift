internal import ChaparCore
public import ChaparModules

extension ModuleFactory {
    /// Release notes under `/v1/apps/`.
    ///
    /// ## Configuration keys, in the section `release_notes`
    /// - `public_url`: where the gateway is seen from outside, for links in announcements.
    /// - `apps` (required): a map from the app's id to
    ///   - `current` (required): the published version; `sources` (required): a map from language tag to file, a
    ///     property list or JSON; `default_language`, required with more than one source; `name`: the app's, for
    ///     people;
    ///   - `ui`: a map from language tag to the looks, as the client library's own keys have it; `review_url`;
    ///   - `shape` (`documented` or `compiled`): the JSON form that is served; `mode` (`automatic`, `lenient`,
    ///     `strict`): whether bad items are skipped or make the document bad.
    public static let releaseNotes = ModuleFactory("release_notes") { section, context in
        NotesOptions(section).map { NotesModule($0, context: context) }
    }
}
