-- The index: one SQLite file that holds the searchable history of every session.
-- All times are integers, milliseconds since the Unix epoch (UTC), as in OpenCode.
-- It is a cache: schema.py says which version this is, and the writer rebuilds any other.

-- One row per place that history was read from.
CREATE TABLE sources (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,               -- api, db or storage
  location TEXT NOT NULL,           -- absolute path, or URL without credentials
  last_sync INTEGER,                -- when the last complete listing began
  sessions INTEGER NOT NULL DEFAULT 0,
  error TEXT,                       -- what went wrong in the last sync, NULL when all was read
  signature TEXT,                   -- what it looked like then; the same again means nothing changed
  UNIQUE (kind, location)
);

CREATE TABLE projects (
  id TEXT PRIMARY KEY,
  directory TEXT,                   -- root of the main worktree
  name TEXT,
  vcs TEXT,
  created INTEGER,
  updated INTEGER
);

-- Every root that a project has had: moved folders, and worktrees beside the main one.
CREATE TABLE project_directories (
  project_id TEXT NOT NULL REFERENCES projects(id),
  directory TEXT NOT NULL,
  PRIMARY KEY (project_id, directory)
) WITHOUT ROWID;

CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  num INTEGER NOT NULL UNIQUE,      -- document ids of the session are num * 2^20 + slot
  project_id TEXT REFERENCES projects(id),
  parent_id TEXT,                   -- no foreign key: a parent may be missing
  title TEXT NOT NULL,
  directory TEXT,
  slug TEXT,
  version TEXT,
  agent TEXT,
  provider TEXT,
  model TEXT,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,         -- last activity of the session, its messages and parts
  archived INTEGER,
  cost REAL,
  tokens_input INTEGER,
  tokens_output INTEGER,
  tokens_reasoning INTEGER,
  tokens_cache_read INTEGER,
  tokens_cache_write INTEGER,
  additions INTEGER,
  deletions INTEGER,
  files_changed INTEGER,
  share_url TEXT,
  end_user TEXT,
  forked_from TEXT,                 -- as fork_told, else as its copied messages tell
  fork_told TEXT,                   -- what the source itself says of that
  stranded TEXT,                    -- NULL, after-import or perhaps-deleted
  source_id INTEGER NOT NULL REFERENCES sources(id),
  fingerprint TEXT NOT NULL,        -- of the indexed copy, see session_copies
  added TEXT NOT NULL DEFAULT '',   -- what the other copies said of theirs when they were added
  fetched_at INTEGER NOT NULL,      -- when the fetch that wrote this row began
  deleted_at INTEGER                -- set where a deleted session is kept on request
);
CREATE INDEX sessions_updated ON sessions(updated);
CREATE INDEX sessions_project ON sessions(project_id, updated);
CREATE INDEX sessions_parent ON sessions(parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_directory ON sessions(directory, project_id);
CREATE INDEX sessions_forked ON sessions(forked_from) WHERE forked_from IS NOT NULL;

-- Which sources hold a session, as their last listings said. The best copy (latest
-- activity, then rank) is the one that is indexed.
CREATE TABLE session_copies (
  session_id TEXT NOT NULL,
  source_id INTEGER NOT NULL REFERENCES sources(id),
  rank INTEGER NOT NULL,            -- at equal activity: api 3, v2 tables 2, v1 tables 1, JSON 0
  activity INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,        -- of title, project, directory and activity
  holds TEXT NOT NULL DEFAULT '',   -- which generations of it: v1, v2, v1 v2, json, api
  stranded TEXT,                    -- as sessions.stranded, as far as this source can tell
  adds TEXT NOT NULL DEFAULT '',    -- changes with what this copy may add to a better one
  PRIMARY KEY (session_id, source_id)
) WITHOUT ROWID;
CREATE INDEX session_copies_source ON session_copies(source_id);

-- One row per message, and one for each session title (message_id '', seq -1, role title).
CREATE TABLE documents (
  id INTEGER PRIMARY KEY,           -- sessions.num * 2^20 + slot, so a session is one rowid range
  session_id TEXT NOT NULL REFERENCES sessions(id),
  message_id TEXT NOT NULL,
  project_id TEXT REFERENCES projects(id),
  timestamp INTEGER NOT NULL,       -- a title has its session's last activity
  seq INTEGER NOT NULL,             -- position in the session, from 0
  role TEXT NOT NULL,               -- user, assistant, title, or the native message type
  agent TEXT,
  provider TEXT,
  model TEXT,
  cost REAL,
  tokens_input INTEGER,
  tokens_output INTEGER,
  tokens_reasoning INTEGER,
  tokens_cache_read INTEGER,
  tokens_cache_write INTEGER,
  finish TEXT,
  copied INTEGER NOT NULL DEFAULT 0,   -- 1 where a fork copied it
  copied_from TEXT,                 -- the session in which it counts instead
  reverted INTEGER NOT NULL DEFAULT 0, -- 1 where a revert undid it
  only_in TEXT,                     -- json, v1 or v2 where only that older copy still has it
  own_length INTEGER NOT NULL,      -- code points at the start of text that are the role's own, not synthetic
  stamp TEXT NOT NULL,              -- changes whenever the source's copy of the message does
  text TEXT NOT NULL
);
CREATE UNIQUE INDEX documents_message ON documents(session_id, message_id);
CREATE INDEX documents_seq ON documents(session_id, seq);
-- Tells without a look at the rows whether two sessions have a message of the same moment.
CREATE INDEX documents_timestamp ON documents(timestamp, copied) WHERE message_id <> '';

-- The pieces of a message in their order; each is a span of documents.text.
CREATE TABLE parts (
  document_id INTEGER NOT NULL REFERENCES documents(id),
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,               -- text, reasoning, tool, input, output, error, synthetic, file, path, summary ...
  call INTEGER,                     -- the same number for all rows of one tool call
  name TEXT,                        -- of the tool, the input's key, the file's mime type
  title TEXT,                       -- of a tool call, as OpenCode shows it
  status TEXT,                      -- of a tool call: pending, running, completed, error
  started INTEGER,
  ended INTEGER,
  start INTEGER NOT NULL,           -- in code points, from 0
  length INTEGER NOT NULL,
  only_in TEXT,                     -- as in documents, of this piece alone
  reverted INTEGER NOT NULL DEFAULT 0, -- 1 where a revert undid the message from here on
  PRIMARY KEY (document_id, seq)
) WITHOUT ROWID;

CREATE TABLE document_paths (
  document_id INTEGER NOT NULL REFERENCES documents(id),
  project_id TEXT REFERENCES projects(id),
  timestamp INTEGER NOT NULL,
  path TEXT NOT NULL,               -- absolute where it can be known, always with /
  basename TEXT NOT NULL,
  tool TEXT,                        -- NULL where only a snapshot named the file
  reverted INTEGER NOT NULL DEFAULT 0, -- 1 where only what a revert undid of the message edited it
  PRIMARY KEY (document_id, path)
) WITHOUT ROWID;
CREATE INDEX document_paths_path ON document_paths(path, timestamp);
CREATE INDEX document_paths_basename ON document_paths(basename, timestamp);
CREATE INDEX document_paths_timestamp ON document_paths(timestamp);

CREATE TABLE todos (
  session_id TEXT NOT NULL REFERENCES sessions(id),
  position INTEGER NOT NULL,
  content TEXT NOT NULL,
  status TEXT,
  priority TEXT,
  PRIMARY KEY (session_id, position)
) WITHOUT ROWID;

-- Deleted sessions. A write whose fetch began before the deletion is refused; kept for a day.
CREATE TABLE tombstones (
  session_id TEXT PRIMARY KEY,
  deleted_at INTEGER NOT NULL
) WITHOUT ROWID;

-- What could not be read, by source, as of its last sync.
CREATE TABLE problems (
  id INTEGER PRIMARY KEY,
  source_id INTEGER NOT NULL REFERENCES sources(id),
  session_id TEXT,                  -- NULL where it is not known
  stage TEXT NOT NULL,              -- list or read: what found it, and so what finds it gone
  item TEXT NOT NULL,               -- the row or file
  reason TEXT NOT NULL,
  found_at INTEGER NOT NULL
);
CREATE INDEX problems_session ON problems(source_id, session_id);

-- One row per backfill; the heartbeat tells a running one from a killed one.
CREATE TABLE syncs (
  id INTEGER PRIMARY KEY,
  pid INTEGER NOT NULL,
  started INTEGER NOT NULL,
  heartbeat INTEGER NOT NULL,
  finished INTEGER,
  planned INTEGER,                  -- sessions to refresh, NULL while listing
  done INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0
);

-- Kept in step with documents by the writer, not by triggers: a statement that fires a trigger
-- runs in a savepoint, and FTS5 answers each savepoint with a segment of its own.
CREATE VIRTUAL TABLE documents_fts USING fts5(
  text, content='documents', content_rowid='id', tokenize='trigram case_sensitive 0'
);
-- Few, large merges: see benchmarks/NOTES.md for what each setting gave.
INSERT INTO documents_fts(documents_fts, rank) VALUES ('automerge', 32);
INSERT INTO documents_fts(documents_fts, rank) VALUES ('crisismerge', 1999);
INSERT INTO documents_fts(documents_fts, rank) VALUES ('hashsize', 2097152);

-- Views for people: readable times, names instead of keys.
CREATE VIEW messages AS
SELECT
  d.session_id,
  s.title AS session_title,
  p.directory AS project_directory,
  d.message_id,
  d.seq,
  strftime('%Y-%m-%dT%H:%M:%fZ', d.timestamp / 1000.0, 'unixepoch') AS time,
  d.role, d.agent, d.provider, d.model, d.cost,
  d.tokens_input, d.tokens_output, d.tokens_reasoning, d.tokens_cache_read, d.tokens_cache_write,
  d.finish, d.copied, d.reverted, d.text
FROM documents d
JOIN sessions s ON s.id = d.session_id
LEFT JOIN projects p ON p.id = d.project_id
WHERE d.role <> 'title';

CREATE VIEW tool_calls AS
SELECT
  d.session_id,
  d.message_id,
  t.name AS tool,
  t.status,
  t.title,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(t.started, d.timestamp) / 1000.0, 'unixepoch') AS started,
  t.ended - t.started AS duration_ms,
  (SELECT json_group_object(coalesce(i.name, ''), substr(d.text, i.start + 1, i.length)) FROM parts i
    WHERE i.document_id = t.document_id AND i.call = t.call AND i.kind = 'input') AS input,
  (SELECT group_concat(substr(d.text, o.start + 1, o.length), char(10)) FROM parts o
    WHERE o.document_id = t.document_id AND o.call = t.call AND o.kind = 'output') AS output,
  (SELECT group_concat(substr(d.text, e.start + 1, e.length), char(10)) FROM parts e
    WHERE e.document_id = t.document_id AND e.call = t.call AND e.kind = 'error') AS error,
  d.copied,
  max(d.reverted, t.reverted) AS reverted
FROM parts t
JOIN documents d ON d.id = t.document_id
WHERE t.kind = 'tool';

CREATE VIEW file_edits AS
SELECT
  d.session_id,
  d.message_id,
  s.title AS session_title,
  e.path,
  e.basename,
  e.tool,
  strftime('%Y-%m-%dT%H:%M:%fZ', e.timestamp / 1000.0, 'unixepoch') AS time,
  e.project_id,
  d.copied,
  max(d.reverted, e.reverted) AS reverted
FROM document_paths e
JOIN documents d ON d.id = e.document_id
JOIN sessions s ON s.id = d.session_id;

-- own_*: what the session's own messages spent; total_*: with all subagents below it.
-- A message that a fork copied was paid for once, in the session it came from.
-- recorded_cost: what OpenCode noted for the session as a whole, copies included; difference: what
-- that is over the sum of its messages (V2 counts titles and compactions, which are no messages).
-- *_not_priced: answers with tokens and no cost; nobody said that they were free.
CREATE VIEW session_costs AS
WITH RECURSIVE
spent AS (
  SELECT session_id, copied, coalesce(cost, 0) AS cost,
    coalesce(tokens_input, 0) + coalesce(tokens_output, 0) + coalesce(tokens_reasoning, 0)
      + coalesce(tokens_cache_read, 0) + coalesce(tokens_cache_write, 0) AS tokens
  FROM documents
),
own AS (
  SELECT session_id,
    sum(cost) FILTER (WHERE copied = 0) AS cost,
    sum(tokens) FILTER (WHERE copied = 0) AS tokens,
    count(*) FILTER (WHERE copied = 0 AND tokens > 0 AND cost = 0) AS not_priced,
    sum(cost) AS with_copies
  FROM spent GROUP BY session_id
),
-- UNION, not UNION ALL: a cycle of parents in bad data ends instead of running for ever.
below(root, id) AS (
  SELECT id, id FROM sessions
  UNION
  SELECT b.root, c.id FROM below b JOIN sessions c ON c.parent_id = b.id
),
total AS (
  SELECT b.root, sum(o.cost) AS cost, sum(o.tokens) AS tokens, sum(o.not_priced) AS not_priced
  FROM below b JOIN own o ON o.session_id = b.id GROUP BY b.root
)
SELECT
  s.id,
  s.title,
  s.project_id,
  coalesce(own.cost, 0) AS own_cost,
  coalesce(total.cost, 0) AS total_cost,
  coalesce(own.tokens, 0) AS own_tokens,
  coalesce(total.tokens, 0) AS total_tokens,
  coalesce(own.not_priced, 0) AS own_not_priced,
  coalesce(total.not_priced, 0) AS total_not_priced,
  -- Older rows have 0 there although their messages cost something.
  nullif(s.cost, 0) AS recorded_cost,
  round(nullif(s.cost, 0) - coalesce(own.with_copies, 0), 6) AS difference
FROM sessions s
LEFT JOIN own ON own.session_id = s.id
LEFT JOIN total ON total.root = s.id;
