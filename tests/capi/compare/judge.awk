# judge.awk EXPLAINED THEIRS OURS: holds two outputs of `compare` against each
# other. Prints a line for each function, and what differs without explanation.
# The last line is the count; the exit status is 1 where anything failed.

function field(text, name,   at) {
  at = match(text, "(^|\n)" name "[ \t]+[^\n]*")
  if (!at) return ""
  text = substr(text, RSTART, RLENGTH)
  sub("^\n?" name "[ \t]+", "", text)
  return text
}

# rest LINE: what the case gave: all but the function and the case.
function rest(line,   parts) {
  sub(/^[^\t]*\t[^\t]*\t/, "", line)
  return line
}

# explained FUNCTION CASE THEIRS OURS: does an explanation fit? Then it is used.
function explained(func_name, case_name, theirs, ours,   i, their_rest, our_rest) {
  for (i = 1; i <= explanations; i++) {
    if (func_name !~ ("^(" ex_func[i] ")$") || case_name !~ ("^(" ex_case[i] ")$") ||
        (ex_theirs[i] != "" && theirs !~ ("^(" ex_theirs[i] ")$")) ||
        (ex_ours[i] != "" && ours !~ ("^(" ex_ours[i] ")$")))
      continue
    their_rest = theirs; our_rest = ours
    if (ex_only[i] != "") {
      gsub(ex_only[i], "", their_rest)
      gsub(ex_only[i], "", our_rest)
      if (their_rest != our_rest) continue
    }
    ex_used[i]++
    return 1
  }
  return 0
}

BEGIN {
  explained_file = ARGV[1]; theirs_file = ARGV[2]; ours_file = ARGV[3]
  RS = ""
  while ((getline text < explained_file) > 0) {
    gsub(/(^|\n)#[^\n]*/, "", text)
    if (text !~ /[^ \t\n]/) continue
    explanations++
    ex_func[explanations] = field(text, "function")
    ex_case[explanations] = field(text, "case")
    ex_theirs[explanations] = field(text, "theirs")
    ex_ours[explanations] = field(text, "ours")
    ex_only[explanations] = field(text, "only")
    ex_why[explanations] = field(text, "why")
    if (ex_func[explanations] == "" || ex_case[explanations] == "" || length(ex_why[explanations]) < 20 ||
        ((ex_theirs[explanations] == "" || ex_ours[explanations] == "") && ex_only[explanations] == "")) {
      print "FAIL an explanation lacks function, case, why, or what differs:\n" text
      failed++
    }
  }
  RS = "\n"; FS = "\t"
  while ((getline theirs < theirs_file) > 0) {
    split(theirs, part, "\t")
    name = part[1]
    if (!(name in cases)) order[++functions] = name
    if ((getline ours < ours_file) <= 0) { missing++; bad[name]++; continue }
    cases[name]++
    total++
    if (theirs == ours) continue
    split(ours, mine, "\t")
    if (mine[1] != part[1] || mine[2] != part[2]) {
      print "the outputs part company:\n  theirs " theirs "\n  ours   " ours
      bad[name]++
      break
    }
    if (explained(part[1], part[2], rest(theirs), rest(ours))) { known[name]++; continue }
    if (++bad[name] <= shown_at_most)
      print "  " part[1] ": " part[2] "\n    theirs " rest(theirs) "\n    ours   " rest(ours)
  }
  if (missing) print "  the second output ends " missing " lines early"
  if ((getline ours < ours_file) > 0) { print "  the second output goes on: " ours; failed++ }
  for (i = 1; i <= functions; i++) {
    name = order[i]
    line = name ": " cases[name] " cases"
    if (known[name]) line = line ", " known[name] " differ as explained"
    if (bad[name]) { print "FAIL " line ", " bad[name] " differ"; failed++ }
    else { print "ok   " line; passed++ }
  }
  for (i = 1; i <= explanations; i++)
    if (!ex_used[i] && check_stale) {
      print "FAIL an explanation explains nothing (any more): " ex_func[i] ": " ex_case[i]
      failed++
    }
  print total " cases"
  print passed + 0 " passed, " failed + 0 " failed"
  exit failed > 0
}
