extension Schema {
    /// The campaigns, and the notifications that their windows made.
    ///
    /// * `campaigns.version`: the number of changes; a change is written only over the version that it was made from.
    /// * `campaigns.ended`: when all of it was over, null before.
    /// * `campaigns.packed`: the campaign in the form of `Campaign.encoded`.
    /// * `campaign_parts.first`: the number of the notification, which is that of its first delivery.
    /// * `campaign_parts.place`: the place of that delivery among those of the campaign.
    /// * `campaign_parts.open`: 0 once nothing of the part waits.
    ///
    /// Times are milliseconds since 1970.
    static let campaigns = """
        CREATE TABLE campaigns (
            id INTEGER PRIMARY KEY, version INTEGER NOT NULL, ended INTEGER, packed BLOB NOT NULL
        ) STRICT;
        CREATE INDEX campaigns_open ON campaigns (id) WHERE ended IS NULL;
        CREATE INDEX campaigns_ended ON campaigns (ended) WHERE ended IS NOT NULL;
        CREATE TABLE campaign_parts (
            campaign INTEGER NOT NULL, first INTEGER NOT NULL, place INTEGER NOT NULL, count INTEGER NOT NULL,
            open INTEGER NOT NULL, PRIMARY KEY (campaign, first)
        ) WITHOUT ROWID, STRICT;
        CREATE INDEX campaign_parts_open ON campaign_parts (campaign, first) WHERE open = 1;
        """
}
