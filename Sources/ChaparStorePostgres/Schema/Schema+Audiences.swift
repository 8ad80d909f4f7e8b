extension Schema {
    /// The audiences: what belongs to users and devices besides tags, as labels (`AudienceLabel`).
    ///
    /// * `user_labels`: tags of users, segments with lists of users, and choices about lists.
    /// * `device_labels`: the labels of a device's user, copied, and the device's own: segments with lists of devices,
    ///   and its standing. `labels_of_devices` finds those of a device.
    /// * `label_counts`: the number of devices of an app with a tag or another counted label, the sum over `stripe`:
    ///   connections write rows of their own, since a row that all of them change would make their commits take turns.
    static let audiences = """
        CREATE TABLE chapar.user_labels (user_key text COLLATE "C", label text COLLATE "C", PRIMARY KEY (user_key, label));
        CREATE INDEX labelled_users ON chapar.user_labels (label, user_key);
        CREATE TABLE chapar.device_labels (label text COLLATE "C", device bigint, PRIMARY KEY (label, device));
        CREATE INDEX labels_of_devices ON chapar.device_labels (device);
        CREATE TABLE chapar.label_counts (
            app text COLLATE "C", label text COLLATE "C", stripe int DEFAULT 0, devices bigint NOT NULL,
            PRIMARY KEY (app, label, stripe)
        ) WITH (fillfactor = 70);
        INSERT INTO chapar.label_counts (app, label, devices)
            SELECT CASE WHEN strpos(d.id, '/') = 0 THEN 'default' ELSE split_part(d.id, '/', 1) END, 't:' || t.tag, count(*)
            FROM chapar.device_tags t JOIN chapar.devices d ON d.number = t.device GROUP BY 1, 2
        """
}
